"""A shard of kcp: one log of many logical clusters."""
