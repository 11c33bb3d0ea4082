"""Rules of ClusterPolicy and Policy (kyverno.io/v1), evaluated in process."""
