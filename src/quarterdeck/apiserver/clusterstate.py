"""Reads of what is stored, by group and resource, for rules that look beyond one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .builtin.serviceallocator import ServiceAllocator
from .resourcetable import ResourceTable

Json = dict[str, Any]


class StoredState:
    """See strategy.ClusterState. Objects come in the preferred served version, as fresh copies."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self.service_allocator: ServiceAllocator | None = None

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        versions = self._table.versions_of(group, resource)
        if not versions:
            return None
        entry = versions[0].bucket.get(namespace, name)
        return None if entry is None else versions[0].read(entry)

    def exists(self, group: str, resource: str, namespace: str, name: str) -> bool:
        versions = self._table.versions_of(group, resource)
        return bool(versions) and versions[0].bucket.get(namespace, name) is not None

    def list(self, group: str, resource: str, namespace: str = "") -> Sequence[Json]:
        versions = self._table.versions_of(group, resource)
        if not versions:
            return []
        return [versions[0].read(entry) for entry in versions[0].bucket.scan(namespace)]
