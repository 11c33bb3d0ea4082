"""The API server's own changes of a request's objects: built-in plugins, strategies, options."""
