"""NodeRestriction: limits of kubelets."""
