"""Quarterdeck."""
