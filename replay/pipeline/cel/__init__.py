"""CEL without a log: one expression, or a corpus of them, as the API server evaluates it."""
