"""Answers of webhooks: from real endpoints, asked over HTTPS, or from the log."""
