"""Files that are not plain lines: compression with checksums, damage, lines without an end."""
