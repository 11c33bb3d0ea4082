"""The candidate's API server: its answer to one request, and the object afterwards."""
