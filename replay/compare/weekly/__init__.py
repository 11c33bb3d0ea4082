"""The figures of a period."""
