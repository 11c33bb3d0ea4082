"""Rules of ClusterPolicies and Policies as policies of CEL that decide the same, where there are such."""
