"""The ValidatingAdmissionPolicy plugin."""
