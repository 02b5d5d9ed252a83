"""Stories: commands for a cluster, what should come of them, and why. `quarterdeck demo` tells one."""
