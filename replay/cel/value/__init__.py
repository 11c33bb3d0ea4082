"""The values of CEL and the operations on them: types, equality, arithmetic, conversions, texts."""
