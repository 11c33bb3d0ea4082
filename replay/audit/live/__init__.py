"""Logs that grow while they are read: followed files, and API servers that send events."""
