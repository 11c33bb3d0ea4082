"""Logs that grow while they are read: followed files, and an API server that sends events."""
