"""Reports for people: terminal, HTML, Markdown, JSON, charts."""
