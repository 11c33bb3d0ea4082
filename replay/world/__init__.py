"""The candidate's world: what becomes of requests and objects after the first difference."""
