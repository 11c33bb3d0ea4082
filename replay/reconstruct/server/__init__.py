"""What the API server itself writes into a request's objects: built-in plugins, strategies, options."""
