"""The REST API's validation of admissionregistration objects, one module for each part."""
