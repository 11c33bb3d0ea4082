"""A shard of kcp: sets by workspace, its workspaces over time, and the workspaces whose policies decide."""
