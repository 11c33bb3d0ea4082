"""The API server of the candidate's world: what it answers to one request, and what it then holds."""
