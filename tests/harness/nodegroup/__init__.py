"""Cases of nodegroup: what their files say and how it is run."""
