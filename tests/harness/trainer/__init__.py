"""Cases of trainer: what their files say and how it is run."""
