"""What can be asked of a pod beyond reading and writing it: bind, evict, logs, streams, proxy."""
