"""Joins the stages. No other package knows all of them."""
