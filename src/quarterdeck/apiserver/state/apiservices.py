"""APIService objects of the groups this server serves itself: `kubectl get apiservices` shows them as Local.

Built-in group versions are there from the start, those that are computed among them; those of CRDs come and
go with them. Aggregated servers (an APIService with a service) are stored and have no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage import Store, WriteConflict, encode_value
from quarterdeck.apiserver.uid import new_uid
from quarterdeck.wire.wallclock import timestamp

_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
#: (groupPriorityMinimum, versionPriority) of built-in groups, as upstream registers them
_PRIORITIES: Final = {
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 15),
    "authentication.k8s.io": (17700, 15),
    "authorization.k8s.io": (17600, 15),
    "autoscaling": (17500, 15),
    "batch": (17400, 15),
    "certificates.k8s.io": (17300, 15),
    "networking.k8s.io": (17200, 15),
    "policy": (17100, 15),
    "rbac.authorization.k8s.io": (17000, 15),
    "storage.k8s.io": (16800, 15),
    "admissionregistration.k8s.io": (16700, 15),
    "apiextensions.k8s.io": (16700, 15),
    "scheduling.k8s.io": (16600, 15),
    "coordination.k8s.io": (16500, 15),
    "node.k8s.io": (16300, 15),
    "discovery.k8s.io": (16200, 15),
    "resource.k8s.io": (16200, 21),
    "flowcontrol.apiserver.k8s.io": (16100, 21),
    "metrics.k8s.io": (100, 100),
}
_CUSTOM: Final = (1000, 100)
_HIGHER_VERSION: Final = {("autoscaling", "v2"): 30}


class LocalServices:
    """Keeps the objects in step with the resource table."""

    def __init__(self, store: Store, table: ResourceTable, computed: Iterable[tuple[str, str]] = ()) -> None:
        """``computed`` are groups and versions that no stored objects are behind."""
        self._store = store
        self._table = table
        self._computed = {f"{version}.{group}": (group, version) for group, version in computed}
        self._resource: Resource = table.resources("apiregistration.k8s.io", "v1")[0]
        self._changed = asyncio.Event()
        table.on_change.append(self._changed.set)

    async def changed(self) -> None:
        """Wait until the table is another one than at the last `sync`."""
        await self._changed.wait()

    async def sync(self) -> None:
        self._changed.clear()
        served = {
            f"{version}.{group}": (group, version)
            for group, versions in self._table.groups()
            for version in versions
            if group != self._resource.group
        } | self._computed
        bucket = self._resource.bucket
        writes = []
        for name, (group, version) in served.items():
            if bucket.get("", name) is None:
                value = encode_value(self._document(name, group, version))
                writes.append(
                    self._store.put(bucket, "", name, value, expected=0, labels=self._labels(group))
                )
        for entry in list(bucket.scan()):
            if entry.name not in served and entry.labels.get(_AUTOMANAGED) == "true":
                writes.append(
                    self._store.delete(bucket, "", entry.name, expected=entry.rev, value=entry.value())
                )
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, WriteConflict):
                raise outcome

    def _labels(self, group: str) -> dict[str, str]:
        is_builtin = self._table.is_builtin_group(group) or any(
            each == group for each, _ in self._computed.values()
        )
        return {_AUTOMANAGED: "onstart" if is_builtin else "true"}

    def _document(self, name: str, group: str, version: str) -> Json:
        now = timestamp()
        minimum, priority = _PRIORITIES.get(group, _CUSTOM)
        spec: Json = {
            "version": version,
            "groupPriorityMinimum": minimum,
            "versionPriority": _HIGHER_VERSION.get((group, version), priority),
        }
        if group:
            spec["group"] = group
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        metadata = {
            "name": name,
            "uid": new_uid(),
            "creationTimestamp": now,
            "labels": self._labels(group),
        }
        return {"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}}
