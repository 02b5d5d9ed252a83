"""What both sides of the Kubernetes API need, once: below client and embedded server, above the objects.

Nothing here knows who calls it: no statuses of the server, no verbs of the client.
"""
