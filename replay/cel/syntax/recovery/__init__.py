"""Recovering parser for malformed expressions: finds the messages of cel-go's parser."""
