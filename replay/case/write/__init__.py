"""Cases written down: in the form of `replay` itself, as an AdmissionReview, for kat, kyverno and kubectl."""
