"""The same question about the patches of mutating policies."""
