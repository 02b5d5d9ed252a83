"""What makes an embedded server a cluster: the controllers that every cluster has.

    garbage      owners and dependents: background, foreground and orphan deletion
    namespace    emptying namespaces that are being deleted

They run on the controller runtime, against any API server.
"""
