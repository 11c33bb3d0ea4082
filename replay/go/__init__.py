"""Go's runtime, as far as texts and values of the API server depend on it."""
