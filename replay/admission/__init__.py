"""The admission chain: what policies decide about the attributes of a request."""
