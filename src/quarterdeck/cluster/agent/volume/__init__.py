"""Volumes, and what a container sees of them."""
