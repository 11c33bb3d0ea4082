"""The fast engine: Python source made of a checked tree."""
