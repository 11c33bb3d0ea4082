"""Solver in a separate process."""
