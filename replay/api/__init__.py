"""Python API. Only the names in `replay.__all__` and `replay.cel.__all__` are stable."""
