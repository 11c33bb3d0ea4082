"""The place where all stages are joined. No other package knows all of them."""
