"""Plugins about claims, volumes and storage classes."""
