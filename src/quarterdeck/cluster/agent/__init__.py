"""This machine as a node: pods that run. See docs/node.md and docs/adr/0032-local-node.md.

    agent          the controller, and what all pods of the node share
    registration   the Node object, its status and its lease; machine is what it says
    worker, hand   one pod; one container of it
    plan, status   what is to be done next, and what a kubelet would report; view is what both look at. Pure
    backoff, environment, hosts, image, launch, oom, payload, probe   rules, pure
    allocation, resize   what pods have been given of the node, and how far a resize has come
    cgroup, gpu    resource limits and devices where they can be had
    folder, log, envfile   what is on disk
    volume, handler, grpchealth, pipe   doing things
    container      containers by their folders; shim is the program beside each
    runtime        what a way to run containers must do; process and oci are the two there are
    network        a network of the pods' own, for oci
    servicepath    how pods find Services; proxy passes connections on, datagram passes datagrams on
    server, stream what the API server asks for: logs, exec, attach, port-forward

Desired state comes from the watch, actual state from the folders: nothing is remembered that cannot be found
again.
"""
