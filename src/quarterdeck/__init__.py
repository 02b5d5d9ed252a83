"""Quarterdeck: the control plane of an AI cluster."""

__version__ = "0.1.0"
