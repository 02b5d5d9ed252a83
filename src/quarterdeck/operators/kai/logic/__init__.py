"""Decisions without I/O.

``subgroup`` and ``fraction`` judge objects at admission; ``grouping`` turns pods and their owners into
PodGroups; ``resourcestatus`` and ``condition`` compute statuses.
"""
