"""Commands that ask what happened, after the fact."""
