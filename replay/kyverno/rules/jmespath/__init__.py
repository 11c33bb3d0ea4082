"""JMESPath as Kyverno speaks it: the grammar and evaluation of kyverno/go-jmespath, and Kyverno's own functions.

No library from PyPI serves: the texts of syntax errors reach users inside denials, a key that an object does not have is an error of its own
here, and numbers are told apart by their Go types.
"""
