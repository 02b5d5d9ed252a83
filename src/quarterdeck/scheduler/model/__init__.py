"""The cluster while a cycle decides: nodes, queues, jobs and pods, topology, amounts."""
