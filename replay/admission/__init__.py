"""The admission chain: the decisions of policies about the attributes of a request."""
