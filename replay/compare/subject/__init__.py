"""Subjects of findings: the object of a request, its workload, its owner, and who is affected."""
