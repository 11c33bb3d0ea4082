"""The admission plugins as values, in the order in which the server asks them."""
