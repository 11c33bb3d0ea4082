"""Writers of cases: in the form of `replay` itself, as an AdmissionReview, and for gator, kat, kyverno and kubectl."""
