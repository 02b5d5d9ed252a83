"""Nodes without machines: Node objects that are ready, and pods on them that run without containers.

    names        the annotations by which pods say how they behave
    behavior     how a pod behaves: annotations, settings, defaults
    podstatus    what a kubelet writes about a pod
    happening    what its events say
    lifecycle    what happens to a pod next, and when
    kubelet      the controller that makes it happen
    profile      which nodes there are
    registration the Node objects and their leases

Every node with the label ``quarterdeck.dev/simulated=true`` is served, whoever made it.
"""
