"""Tests of policies with cases, and cases made from requests."""
