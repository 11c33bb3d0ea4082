"""Logs that grow while they are read: files that are followed, and an API server that sends what it logs."""
