"""The syntax tree: nodes, positions, what is wrong at one, and what an expression may read."""
