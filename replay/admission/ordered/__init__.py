"""Admission plugins as values, in the server's order."""
