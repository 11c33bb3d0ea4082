"""One request and one set, looked at closely."""
