"""Cases of grove: what their files say and how it is run."""
