"""Warnings about manifests that the server accepts and an operator would regret."""
