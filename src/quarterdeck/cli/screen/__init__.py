"""The cluster on a terminal."""
