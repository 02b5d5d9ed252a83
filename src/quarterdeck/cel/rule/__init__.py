"""Validation rules of schemas: compiled, checked, run against objects."""
