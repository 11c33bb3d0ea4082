"""RBAC: the rules of a user, and what they allow."""
