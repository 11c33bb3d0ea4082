"""The vocabulary of Kubernetes: kinds, request attributes, admissionregistration types, labels, schemas."""
