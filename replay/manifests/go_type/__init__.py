"""The Go types that manifests are decoded into."""
