"""Get and list: one object or many, as JSON, YAML, Tables or metadata."""
