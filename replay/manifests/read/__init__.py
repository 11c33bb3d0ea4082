"""Documents as nodes with their positions: YAML, JSON and protobuf as the server reads them."""
