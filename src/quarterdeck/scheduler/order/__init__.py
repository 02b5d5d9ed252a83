"""Who comes next: fair shares of queues, and the order of jobs."""
