"""Objects that a server would accept: the smallest of each kind, and the problems of others."""
