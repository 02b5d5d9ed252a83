"""Cluster state in memory, read as a client is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarterdeck.api import ObjectMeta, PartialObjectMetadata
from quarterdeck.api.k8s import Endpoints, Secret
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import ModuleConfig


class FakeCluster:
    """Objects by kind and name; raises `error`, if given, from every read, or from those of `unreadable`."""

    def __init__(self, *, error: QuarterdeckError | None = None, unreadable: str = "") -> None:
        self.error = error
        self.unreadable = unreadable
        self.objects: dict[tuple[Any, str], Any] = {}
        self.heads: list[PartialObjectMetadata] = []
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
        self.heads.append(PartialObjectMetadata(metadata=ObjectMeta(name=name, labels=labels)))

    def _note(self, what: str) -> None:
        self.reads.append(what)
        if self.error is not None and self.unreadable in ("", what):
            raise self.error

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        self._note(name)
        if (kind, name) not in self.objects:
            raise NotFound.in_cache(kind.__name__, name)
        return self.objects[kind, name]

    async def nodes(self, group: str, label: str, value: str) -> Sequence[PartialObjectMetadata]:
        self._note("nodes")
        wanted = {names.GROUP_LABEL: group, label: value}
        return [head for head in self.heads if wanted.items() <= dict(head.metadata.labels).items()]
