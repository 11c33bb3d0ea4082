"""Documents as plain values, and their renderers."""
