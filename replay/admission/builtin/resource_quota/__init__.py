"""ResourceQuota: the usage of objects, and whether a quota has enough left."""
