"""The MutatingAdmissionPolicy plugin."""
