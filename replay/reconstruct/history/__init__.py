"""The states of one object, in the order in which they were stored."""
