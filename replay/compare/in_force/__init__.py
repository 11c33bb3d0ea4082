"""When a set was in force, by what the log shows of it."""
