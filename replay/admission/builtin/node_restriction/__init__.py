"""NodeRestriction: what kubelets may do."""
