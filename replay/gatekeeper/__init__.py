"""Gatekeeper: constraints, mutators and expansion, evaluated in process."""
