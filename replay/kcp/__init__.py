"""Rules of kcp that differ from Kubernetes, each in one place (`docs/kcp.md`)."""
