"""Questions about the past: requests, objects, policies, and SQL."""
