"""Project loop: inputs, accepted findings, and effects of a change."""
