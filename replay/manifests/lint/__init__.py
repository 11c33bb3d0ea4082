"""Warnings about manifests that the server accepts, although they are probably mistakes."""
