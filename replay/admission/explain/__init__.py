"""Explanation of one request in one set."""
