"""The figures of a period, for the weekly report."""
