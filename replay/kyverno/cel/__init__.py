"""CEL policies of Kyverno (`policies.kyverno.io`)."""
