"""The program beside each container: starts it, keeps its log, tells how it ended. Standard library only.

``python -m quarterdeck.cluster.agent.shim run FOLDER`` reads ``launch.json`` in the folder and returns when
the container runs or cannot; what stays behind is a process in a session of its own, which outlives the
agent. A folder is run at most once: a lock and the record of the end see to that, so that starting it again
does no harm. ``probe`` tells which namespaces this user may make here.

    order     what is to be run, and what the folder tells
    linux     system calls that Python does not have
    root      the container's view of the file system
    bundle    a container that an OCI runtime makes instead
    inside    the first process of the container: sets up, starts the program, passes signals on
    output    the log, in the format of CRI
    attach    the socket by which others read along and write
    outside   the process that stays behind
    enter     another program in the same namespaces

Nothing heavy is imported: one of these processes lives as long as each container.
"""
