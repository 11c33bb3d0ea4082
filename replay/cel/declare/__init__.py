"""The parts of an environment: functions with their implementations and costs, macros, types, names."""
