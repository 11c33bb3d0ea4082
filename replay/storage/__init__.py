"""Where the files of a store are: one small protocol, a directory, and object storage behind it."""
