"""Type checking of a tree before it is evaluated."""
