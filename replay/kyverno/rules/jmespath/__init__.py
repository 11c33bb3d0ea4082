"""JMESPath with Kyverno's dialect: grammar and evaluation of kyverno/go-jmespath, and Kyverno's own functions.

No library from PyPI is suitable. Users see the texts of syntax errors in denials, a missing key is an error, and
numbers of different Go types differ.
"""
