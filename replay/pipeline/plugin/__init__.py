"""One built-in admission plugin alone, asked about given AdmissionRequests and about those of a log."""
