"""RBAC: which rules a user has, and what they allow."""
