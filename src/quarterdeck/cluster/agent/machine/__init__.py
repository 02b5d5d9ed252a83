"""The machine: what it has, what is used, who has to go when it runs short; its Node object."""
