"""Log formats: per format, how to recognise and remove its envelope, and the columns inside."""
