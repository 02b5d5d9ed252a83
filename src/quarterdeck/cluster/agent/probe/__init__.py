"""Probes and hooks."""
