"""The patch formats other than apply: JSON patch, merge patch, strategic merge patch.

All work on decoded JSON, change neither the object nor the patch they are given, and raise the
StatusError to answer.
"""
