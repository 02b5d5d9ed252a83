"""NodeGroup: groups of nodes of one configuration, in three API versions that convert without loss.

The kind is Deckhouse's. ``types`` declares the three versions, ``logic`` converts and judges objects
without any I/O, ``webhooks`` answers the API server, ``controllers`` keeps the status. Names that others
rely on (labels, annotations, Secrets, webhook names) are in ``names``.
"""
