"""The directories of stores and runs: what has to be in them, what is left of a killed process, what is forgotten and what is put together."""
