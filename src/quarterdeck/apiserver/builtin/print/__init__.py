"""The rows that kubectl prints of built-in kinds."""
