"""The values of CEL and what can be done with them: types, equality, arithmetic, conversions, texts."""
