"""Cases of kai: what their files say and how it is run."""
