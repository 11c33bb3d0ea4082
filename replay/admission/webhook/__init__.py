"""The two webhook plugins."""
