"""What belongs to the cluster rather than to a workload: nodes, namespaces, events, leases, quotas."""
