"""One record of the log, parsed: resource, kind, query, bodies, and unknown parts."""
