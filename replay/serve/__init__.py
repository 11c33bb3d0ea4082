"""`replay serve`: policies on trial, decided again as the log grows, with a web page for people and an API for machines."""
