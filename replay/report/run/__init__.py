"""The report of `replay run`."""
