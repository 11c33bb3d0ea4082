"""Lexer, parsers and writer: turn text into a syntax tree and back."""
