"""This machine as a node: pods that run. See docs/node.md and docs/adr/0032-local-node.md.

    agent, nodetools   the controller, and what all pods of the node share
    pod            one pod: plan is what is to be done next, status what a kubelet would report, view what
                   both look at; worker does it; folder is what is on disk
    container      one container: control starts, watches and stops it; runtime is what a way to run it must
                   do; process is one
    oci            the other; shim is the program beside each container of either
    probe          probes and hooks: how often, and how they ask
    environment    variables, and where their values come from
    volume         volumes, and what a container sees of them
    machine        what the machine has and what is left of it; registration is the Node object and its lease
    network        names and Services of pods, proxies, and the pods' own network for oci
    server, stream what the API server asks for: logs, exec, attach, port-forward

Desired state comes from the watch, actual state from the folders: nothing is remembered that cannot be found
again.
"""
