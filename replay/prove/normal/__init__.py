"""Policies in a form in which what means the same looks the same."""
