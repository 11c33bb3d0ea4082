"""Gatekeeper: constraints, mutators and expansion, decided in process."""
