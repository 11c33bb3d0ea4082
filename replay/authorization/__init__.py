"""Authorization: the chain of authorizers of an API server, decided as the server does, each step told."""
