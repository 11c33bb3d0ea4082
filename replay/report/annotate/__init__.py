"""Findings at a file and line, in the forms that code hosts and CI servers read."""
