"""The controllers of a cluster in a process of their own, beside the server that `quarterdeck up` runs.

One event loop that serves requests and reconciles makes every client wait for the longest reconcile; see
`docs/adr/0031-two-processes.md`. `message` is what the two processes tell each other over a pipe, `link` the
server's end of it, `process` the other.
"""
