"""Plugins about certificate requests and trust bundles."""
