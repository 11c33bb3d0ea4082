"""A solver in a process of its own."""
