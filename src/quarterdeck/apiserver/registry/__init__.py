"""The generic pipeline: every verb on every resource, built-in or custom.

    request   one API request: who, what, which options
    read      get and list
    watch     streams of changes
    write     create, update, patch, apply
    delete    delete and deletecollection
    answer    objects into response bodies (plain, Table, metadata only)

What differs between kinds is in their `Strategy`; what differs between built-in and custom
resources is in their `Resource`.
"""
