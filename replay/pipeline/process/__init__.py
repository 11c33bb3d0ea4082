"""Processes of our own: how they begin and end, and the one that reads a log before all else is imported."""
