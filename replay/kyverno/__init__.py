"""Kyverno's policies, decided in process."""
