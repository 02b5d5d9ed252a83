"""Simulated nodes: which a command makes, and `quarterdeck nodes`."""
