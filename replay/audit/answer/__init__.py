"""What an event itself says about decisions: the answer of the server, and its annotations."""
