"""Replay of a kcp shard's log: sets by workspace, policies over time, and the workspaces whose policies decide."""
