"""Cases: requests written by hand or taken from a log, with the decisions that are expected of policies."""
