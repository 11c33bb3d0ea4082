"""Answers of webhooks, from endpoints over HTTPS or from the log."""
