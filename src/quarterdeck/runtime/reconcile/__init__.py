"""What one run of a reconciler works with: reads, writes, status, children, finalizers."""
