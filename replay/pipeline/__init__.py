"""Joins the stages: the only package that knows all of them."""
