"""`quarterdeck demo`: a cluster with the examples, simulated or on this machine."""
