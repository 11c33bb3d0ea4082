"""Patches: the four forms of a body, and the results of applying them."""
