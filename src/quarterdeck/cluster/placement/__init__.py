"""The default scheduler: pods that ask for no other get a node.

    board       nodes, what is left of them, and who may go where
    controller  the controller that binds pods

How nodes are judged and accounts are kept is shared with the gang scheduler (``quarterdeck.scheduler``).
"""
