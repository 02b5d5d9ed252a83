"""A checked tree as closures, and how they run."""
