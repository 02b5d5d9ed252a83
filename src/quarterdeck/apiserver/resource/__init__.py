"""What a served resource is: its facts, its strategy, and the table of all that are served."""
