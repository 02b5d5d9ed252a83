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
    choice           which of them run
    joining          the first node of a cluster that has none
    workload         what runs workloads and pods, each part of which can be left out:
    podset           what controllers of sets of pods have in common
    replicaset       ReplicaSets and ReplicationControllers
    deployment       Deployments
    statefulset      StatefulSets
    daemonset        DaemonSets
    autoscaling      HorizontalPodAutoscalers
    disruption       PodDisruptionBudgets
    endpoints        Endpoints and EndpointSlices
    cronjob          CronJobs
    job              Jobs
    jobset           JobSets
    placement        the default scheduler
    node             nodes without machines
    agent            this machine as a node: pods that run
    podgc            pods whose node is gone

They run on the controller runtime, against any API server.
"""
