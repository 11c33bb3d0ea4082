"""Builds the attributes of an admission request from audit records."""
