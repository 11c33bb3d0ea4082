"""Replaying the log of a kcp shard: sets by workspace, policies over time, and which of them decide."""
