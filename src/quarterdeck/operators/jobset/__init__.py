"""JobSet: groups of Jobs that start, fail and finish together (jobset.x-k8s.io).

``types`` declares the kind; ``logic`` holds the decisions without I/O: what admission fills in and refuses,
the Jobs a set has, what becomes of it when they fail, where they are placed; ``controllers`` carry them out;
``webhooks`` answer the API server.
"""
