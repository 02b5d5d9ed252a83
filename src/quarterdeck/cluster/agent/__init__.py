"""This machine as a node: pods that run. See docs/node.md and docs/adr/0032-local-node.md.

    agent, server, stream   the controller, and what the API server asks for: logs, exec, attach, port-forward
    pod            one pod: plan is what is to be done next, status what is reported; worker does it;
                   control starts, watches and stops one container
    nodetools      what all pods of the node share
    process, oci   the two ways to run a container
    probe          probes and hooks: how often, and how they ask
    network        names and Services of pods, proxies, and the pods' own network for oci
    container      containers alike in both: runtime is what a way to run them must do
    volume         volumes, and what a container sees of them
    environment    variables, and where their values come from
    machine        what the machine has and what is left of it; registration is the Node object and its lease
    record         what is known of pods: folder is what is on disk, view what everybody looks at
    shim           the program beside each container

Each imports only from those below it; a contract in pyproject.toml holds that.

Desired state comes from the watch, actual state from the folders: nothing is remembered that cannot be found
again.
"""
