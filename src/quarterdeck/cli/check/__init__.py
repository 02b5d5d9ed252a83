"""`quarterdeck check`."""
