"""Pods: defaults, every part of their validation, warnings, subresources."""
