"""Search for requests that distinguish two policies, by trying."""
