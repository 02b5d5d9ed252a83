"""Kinds that run pods from a template, and those that scale or protect them."""
