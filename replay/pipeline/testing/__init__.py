"""Policies tested on cases, and cases made of requests."""
