"""Patches: the four forms of a body, and the object that each makes of another."""
