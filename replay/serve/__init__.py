"""`replay serve`: candidates on trial, decided again as the log grows, with a web page and an API."""
