"""Directories of stores and runs: layout, integrity, removal of old ingests and leftovers, compaction."""
