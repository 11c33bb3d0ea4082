"""Syntax tree: nodes, positions, issues at a node, and the paths that an expression may read."""
