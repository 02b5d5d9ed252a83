"""Grove: PodCliqueSets, the cliques, scaling groups and gangs made of them, and a door for schedulers.

``types`` declares the kinds; ``logic`` holds the decisions without I/O: what is valid, which children a set
has, when a gang may start, what an update or a termination takes next; ``backends`` is the contract with
schedulers and the two that come along; ``controllers`` carry the decisions out; ``webhooks`` guard what
people write. What others rely on by name is in ``names``; what can be set is in ``configuration``.
"""
