"""Deployments: a ReplicaSet for each state of the pod template, and the way from one to the next.

``size`` says how large each ReplicaSet should be, ``revision`` which state is which, ``status`` what to say
about it, all without I/O; ``controller`` does it.
"""
