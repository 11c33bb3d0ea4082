"""Checks whether a changed definition of a custom kind refuses objects that the old one accepted."""
