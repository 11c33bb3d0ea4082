"""One record of the log taken apart: resource, kind, query, bodies, and what is known of them."""
