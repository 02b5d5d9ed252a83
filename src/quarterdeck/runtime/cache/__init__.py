"""The informer cache."""
