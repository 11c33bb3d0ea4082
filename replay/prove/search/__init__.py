"""Requests that tell two policies apart, found by trying."""
