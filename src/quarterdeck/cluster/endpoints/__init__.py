"""Where the pods of a Service can be reached: Endpoints and EndpointSlices.

``podaddress`` is a pod as Services see it, ``subset`` and ``plan`` say what the objects should be, without
I/O; ``controller`` and ``slicecontroller`` write them. ``mirror`` and ``mirrorcontroller`` make slices of
Endpoints that somebody else has made.
"""
