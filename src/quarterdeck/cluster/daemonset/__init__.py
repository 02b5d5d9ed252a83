"""DaemonSets: a pod on every node that fits.

``nodefit`` says which nodes fit, ``decision`` which pods to make and to remove, both without I/O; ``history``
keeps the revisions, ``controller`` does the rest.
"""
