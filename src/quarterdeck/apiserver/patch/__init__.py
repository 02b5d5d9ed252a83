"""Patches as requests carry them: bodies decoded with the API server's words, refusals as its answers.

What the formats do is in `quarterdeck.wire.patch`.
"""
