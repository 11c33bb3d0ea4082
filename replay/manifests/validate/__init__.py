"""The REST API's validation of admissionregistration objects, one module per part, one function per rule's home."""
