"""Redaction of Secrets: by place, by value, and by the form of tokens."""
