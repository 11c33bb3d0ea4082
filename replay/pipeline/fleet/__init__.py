"""Work on other machines: orders are sent, large values go through the store's storage."""
