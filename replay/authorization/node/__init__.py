"""The node authorizer: what kubelets may do, by what belongs to their nodes."""
