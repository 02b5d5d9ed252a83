"""Create, update, delete: the steps of a write, from what a client wants to the store."""
