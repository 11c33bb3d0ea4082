"""The loop in which a policy gets better: what a project has, what it accepts, and what a change of it changes."""
