"""The admission plugins that are compiled into the API server, one small file each."""
