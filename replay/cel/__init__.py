"""The Common Expression Language, without Kubernetes: parse, check, plan, evaluate."""
