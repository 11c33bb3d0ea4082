"""Types: what is checked in a tree before it is evaluated."""
