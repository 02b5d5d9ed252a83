"""The default scheduler: pods that ask for no other get a node.

    controller   the controller that binds pods
    state        nodes, what is left of them, and who may go where
    preemption   who has to go for a more important pod
    spread, neighbour, wish
                 constraints and wishes: over domains, between pods, about nodes
    volume, volumelimit
                 what claims for volumes demand of a node
    device       claims for devices, read and written

How nodes are judged and accounts are kept is shared with the gang scheduler (``quarterdeck.scheduler``).
"""
