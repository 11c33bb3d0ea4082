"""Periods in which a set was in force, as far as the log shows."""
