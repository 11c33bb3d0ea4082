"""Settings of a project: `replay.toml`, the environment, accepted findings."""
