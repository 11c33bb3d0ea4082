"""Secrets kept out of what is shown: by their place, by their values, and by what tokens look like."""
