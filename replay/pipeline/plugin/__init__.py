"""One built-in admission plugin alone, on given AdmissionRequests and on those of a log."""
