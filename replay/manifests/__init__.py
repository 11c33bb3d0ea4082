"""Manifest sets: strict loading, defaulting and validation as the API server does it."""
