"""The controller: from changes of objects to keys, from keys to runs of a reconciler."""
