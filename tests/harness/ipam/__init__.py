"""Cases of ipam: what their files say and how it is run."""
