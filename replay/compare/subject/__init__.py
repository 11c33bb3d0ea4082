"""What findings are about: the object of a request, the workload that it belongs to, its owner, and who is hit by what."""
