"""Texts: which predicates can hold of one text at once, and answers about constants."""
