"""ResourceQuota: what objects use, and whether a quota has that much left."""
