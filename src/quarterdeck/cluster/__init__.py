"""What makes an API server a cluster: the controllers that every cluster has. See docs/cluster.md.

    controllers      all of them, for a manager to run
    namespace        emptying namespaces that are being deleted
    garbage          owners and dependents: background, foreground and orphan deletion
    monitor          the watches of everything that garbage collection and quotas stand on
    quota            what quotas are used for
    serviceaccount   the account `default` in every namespace
    rootca           the certificate of the API server in every namespace
    token            Secrets that hold tokens of service accounts
    aggregation      ClusterRoles that gather the rules of others
    event            events that have had their time
    workload         what runs Jobs and pods, each part of which can be left out:
    job              Jobs
    jobset           JobSets
    placement        the default scheduler
    node             nodes without machines
    podgc            pods whose node is gone

They run on the controller runtime, against any API server.
"""
