"""Custom resources: CRDs, their lifecycle and the resources they serve."""
