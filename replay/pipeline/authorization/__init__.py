"""Authorization replayed: what the authorizers of both sets say about every request of a log."""
