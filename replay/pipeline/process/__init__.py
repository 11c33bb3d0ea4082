"""Processes of our own: their start and end, and the process that reads a log before other imports."""
