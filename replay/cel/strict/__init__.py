"""The strict engine: the server's error texts, unknowns and costs."""
