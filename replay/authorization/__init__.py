"""Authorization: the chain of authorizers of an API server. It decides as the server does and records each step."""
