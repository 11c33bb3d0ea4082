"""Structured merge (sigs.k8s.io/structured-merge-diff): types, keys and error texts, and the ownership of fields."""
