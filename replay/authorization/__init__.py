"""Authorization: an API server's chain of authorizers, decided as the server does, with each step."""
