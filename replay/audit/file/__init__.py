"""What a file of a log holds where it is not simply lines: compression that is checked, damage, lines without end."""
