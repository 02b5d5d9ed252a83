"""What Quarterdeck takes over from Kubernetes by machine; ``generate.py`` is the command."""
