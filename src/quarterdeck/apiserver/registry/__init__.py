"""The generic pipeline: every verb on every resource, built-in or custom.

    subresource, virtual     what is more than an object: pods/exec, tokens, reviews
    pod, scale, watch        pods' own subresources; Scale; streams of changes
    patch                    PATCH in its four forms
    write                    create, update, delete
    read                     get and list
    request, answer, body    one API request: who, what, which options; objects into response bodies

Each line may use those below it. What differs between kinds is in their `Strategy`; what differs between
built-in and custom resources is in their `Resource`.
"""
