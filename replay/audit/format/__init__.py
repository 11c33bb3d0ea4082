"""Log formats: one row each of how an envelope is recognised and taken off, and the columns of what stands in it."""
