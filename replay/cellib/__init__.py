"""The CEL libraries and environments of Kubernetes admission."""
