"""Plugins about claims, volumes and classes."""
