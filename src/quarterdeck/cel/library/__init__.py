"""Function libraries of CEL as Kubernetes 1.36 offers them, one module each."""
