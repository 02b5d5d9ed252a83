"""Admission checks that are built in."""
