"""CEL libraries of Kyverno (github.com/kyverno/sdk, `extensions/cel/libs`)."""
