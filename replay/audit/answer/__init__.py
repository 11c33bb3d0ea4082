"""Facts about decisions in an audit event: the server's answer and annotations."""
