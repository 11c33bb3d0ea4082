"""What authorization found out, as text and documents."""
