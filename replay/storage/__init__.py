"""Storage of a store's files: one small protocol, implemented by a directory and by object storage."""
