"""Manifest sets: strict loading, defaulting and validation, as in the API server."""
