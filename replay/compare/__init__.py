"""Comparison of the baseline with the candidate, and of the baseline with what the log says happened."""
