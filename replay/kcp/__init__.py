"""What admission in kcp does otherwise than in Kubernetes, each rule in one place (`docs/kcp.md`)."""
