"""From audit records to the attributes that admission saw."""
