"""PodDisruptionBudgets: how many pods may go at once; the API server asks before it evicts one.

``decision`` counts, without I/O; ``scale`` finds out how many pods there should be; ``controller`` writes the
status, ``stalecondition`` takes back what an eviction announced that never came.
"""
