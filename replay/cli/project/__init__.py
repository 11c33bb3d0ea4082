"""What a project says once, so that no command needs to be told: `replay.toml`, the environment, accepted findings."""
