"""Log formats: how to recognise and remove the envelope of each, and the columns inside."""
