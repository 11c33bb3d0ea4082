"""The Python API: what stands in `replay.__all__` and in the `__all__` of `replay.cel`, and nothing else, is kept stable."""
