"""Parts of Go's standard library, as far as texts and values of the API server depend on them."""
