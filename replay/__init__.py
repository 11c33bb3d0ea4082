"""Replay Kubernetes audit logs against current and candidate admission manifests."""
