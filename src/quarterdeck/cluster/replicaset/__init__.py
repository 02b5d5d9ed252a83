"""ReplicaSets and ReplicationControllers: so many pods of one template, no more and no less.

``decision`` says which pods to remove and what the status is, without I/O; ``controller`` does it, for both
kinds.
"""
