"""Facts about decisions that an audit event itself holds: the server's answer and annotations."""
