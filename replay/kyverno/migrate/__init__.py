"""Migration of ClusterPolicy and Policy rules to CEL policies that decide the same."""
