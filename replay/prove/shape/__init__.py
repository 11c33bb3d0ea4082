"""Objects that a server would accept: the least of each kind, and what is wrong with one."""
