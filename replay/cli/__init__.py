"""The Typer commands."""
