"""What both ends of the API need, once: HTTP, patches, field errors, Go's texts, certificates.

Nothing here knows a server, a client or a controller; it imports ``quarterdeck.api`` and
``quarterdeck.errors`` and nothing else of ours.
"""
