"""StatefulSets: pods with names and volumes of their own, made and removed in order.

``identity`` makes the pods, ``retention`` says who owns their claims, both without I/O; ``podcontrol`` writes
them, ``controller`` decides in which order.
"""
