"""Results of authorization as text and documents."""
