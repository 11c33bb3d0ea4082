"""The match of requests with policies and webhooks."""
