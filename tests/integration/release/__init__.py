"""Data directories that releases wrote, and what makes them."""
