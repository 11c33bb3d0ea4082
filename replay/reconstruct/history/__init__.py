"""States of one object, in storage order."""
