"""Readers of YAML, JSON and protobuf documents, as the server reads them. Nodes have positions."""
