"""The strict engine, which reproduces the server's error texts, unknowns and costs."""
