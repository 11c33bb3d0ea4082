"""Kyverno's rules of ClusterPolicy and Policy (kyverno.io/v1), decided in process."""
