"""Kyverno's policies of CEL (`policies.kyverno.io`)."""
