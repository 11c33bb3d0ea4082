"""Normal forms of policies: equal meaning gives equal form."""
