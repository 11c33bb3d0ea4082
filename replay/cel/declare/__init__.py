"""What an environment declares: functions with their implementations and costs, macros, types, names."""
