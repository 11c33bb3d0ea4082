"""Plugins about pods."""
