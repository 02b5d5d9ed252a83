"""One pod: what is to be done for it, and what its status says."""
