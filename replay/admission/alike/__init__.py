"""Sharing of decisions between requests that agree in everything that policies read."""
