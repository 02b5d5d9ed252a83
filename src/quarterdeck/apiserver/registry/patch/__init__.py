"""PATCH in its four forms: bodies decoded with the API server's words, refusals as its answers.

What the formats do is in `quarterdeck.wire.patch`, what an apply owns in `apiserver.apply`.
"""
