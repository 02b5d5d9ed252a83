"""Cluster state in memory, read as a client is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import ObjectMeta, PartialObjectMetadata
from quarterdeck.api.k8s import Endpoints, Secret
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import ModuleConfig


class FakeCluster:
    """Objects by kind and name; raises `error`, if given, from every read."""

    def __init__(self, *, error: QuarterdeckError | None = None) -> None:
        self.error = error
        self.objects: dict[tuple[Any, str], Any] = {}
        self.nodes: list[PartialObjectMetadata] = []
        self.reads: list[str] = []

    def add_secret(self, name: str, **data: bytes) -> None:
        present = self.objects.get((Secret, name))
        merged = {**(present.data if present else {}), **data}
        self.objects[Secret, name] = Secret(data=merged)

    def configure(self, text: str) -> None:
        self.add_secret(
            names.CLUSTER_CONFIGURATION_SECRET, **{names.CLUSTER_CONFIGURATION_KEY: text.encode()}
        )

    def set_zones(self, content: bytes) -> None:
        self.add_secret(names.PROVIDER_SECRET, **{names.DISCOVERY_DATA_KEY: content})

    def set_global(self, settings: Any) -> None:
        document = {"metadata": {"name": "global"}, "spec": {"settings": settings}}
        self.objects[ModuleConfig, "global"] = ModuleConfig.from_dict(document)

    def set_endpoints(self, count: int) -> None:
        subset = {
            "addresses": [{"ip": f"10.0.0.{number}"} for number in range(count)],
            "notReadyAddresses": [{"ip": "10.0.1.1"}],
        }
        self.objects[Endpoints, "kubernetes"] = Endpoints.from_dict({"subsets": [subset]})

    def add_node(self, name: str, **labels: str) -> None:
        self.nodes.append(PartialObjectMetadata(metadata=ObjectMeta(name=name, labels=labels)))

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        self.reads.append(name)
        if self.error is not None:
            raise self.error
        if (kind, name) not in self.objects:
            raise NotFound.in_cache(kind.__name__, name)
        return self.objects[kind, name]

    async def list(self, kind: Any, *, labels: Mapping[str, str]) -> Sequence[PartialObjectMetadata]:
        self.reads.append("nodes")
        if self.error is not None:
            raise self.error
        return [node for node in self.nodes if labels.items() <= dict(node.metadata.labels).items()]
