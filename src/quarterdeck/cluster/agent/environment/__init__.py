"""The variables of a container, and where their values come from."""
