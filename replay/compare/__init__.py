"""Current against candidate, and current against what the log says happened."""
