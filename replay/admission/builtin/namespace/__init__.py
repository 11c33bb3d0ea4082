"""Plugins about namespaces."""
