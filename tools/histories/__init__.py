"""Histories: random sequences of changes told to the real server and to ours; what both observed is compared.

`generate` makes a history from a seed and does no I/O; `tell` tells it to a `side`, which is the real server
or ours; `compare` says what differs and what is explained; `shrink` keeps the steps that matter; `recording`
is the file of the real server's answers that tests replay. ``python -m histories`` is the command.
"""
