"""Audit logs: reading, removal of duplicates, storage and queries."""
