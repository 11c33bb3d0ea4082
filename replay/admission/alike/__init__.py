"""Requests that are alike in what policies read of them."""
