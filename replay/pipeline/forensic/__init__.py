"""What happened: single requests, objects, policies, and SQL."""
