"""Work on other machines: orders are sent directly, large values through the store's storage."""
