"""Types of expressions, and the shapes that schemas give to data."""
