"""Audit logs: read, deduplicated, stored and queried."""
