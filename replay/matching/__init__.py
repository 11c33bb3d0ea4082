"""Which policies and webhooks a request is sent to."""
