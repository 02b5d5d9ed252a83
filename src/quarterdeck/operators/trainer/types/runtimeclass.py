"""RuntimeClass, of which only the name matters here."""

from __future__ import annotations

from quarterdeck.api import Resource


class RuntimeClass(Resource, group="node.k8s.io", version="v1", scope="Cluster", plural="runtimeclasses"):
    """A way to run containers; its overhead counts for pods."""
