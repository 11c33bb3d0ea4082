"""Authorization replayed: decisions of both sets' authorizers about every request of a log."""
