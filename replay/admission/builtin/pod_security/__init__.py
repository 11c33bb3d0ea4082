"""PodSecurity: the Pod Security Standards (`k8s.io/pod-security-admission`)."""
