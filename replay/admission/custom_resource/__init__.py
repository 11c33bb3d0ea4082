"""What a new definition of a custom kind refuses of objects that the old one took."""
