"""The fast engine: Python source generated from a checked tree."""
