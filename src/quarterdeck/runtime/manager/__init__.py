"""The manager: what runs in a process, in which order it starts and stops, and who leads."""
