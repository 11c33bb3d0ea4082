"""`replay plugin`: one built-in plugin alone, on given AdmissionRequests and on those of a log."""
