"""Structured merge: types, keys and texts of sigs.k8s.io/structured-merge-diff, and the ownership of fields that builds on them."""
