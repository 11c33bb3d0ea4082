"""Cases: requests made by hand or taken from a log, with what policies are expected to decide about them."""
