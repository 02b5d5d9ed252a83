"""The work queue of a controller, and how long a failed key waits in it."""
