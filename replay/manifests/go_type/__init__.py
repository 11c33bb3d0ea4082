"""The Go types into which manifests are decoded."""
