"""The Service ``default/kubernetes``, and the Endpoints and EndpointSlice that say where this server listens.

Nobody else keeps them: the Service has no selector. When one of them has changed, they are looked at within
ten seconds, as kube-apiserver does, which looks at them all the time.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage import Event, Store, WriteConflict, encode_value
from quarterdeck.wire.wallclock import timestamp

from .bootstrap import Bootstrap, kubernetes_service

_PERIOD: Final = 10.0
_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"
_ANY_ADDRESS: Final = ("", str(ipaddress.IPv4Address(0)), "::", "localhost")
_USUAL_PORT: Final = 6443


class OwnService:
    """Keeps the three objects."""

    def __init__(
        self, store: Store, table: ResourceTable, bootstrap: Bootstrap, host: str, port: int
    ) -> None:
        self._store: Final = store
        self._table: Final = table
        self._bootstrap: Final = bootstrap
        address = "127.0.0.1" if host in _ANY_ADDRESS else host
        self._port: Final = port or _USUAL_PORT
        self._objects: Final = _objects(address, self._port)

        self._changed: Final = asyncio.Event()
        resources = (("", "services"), *((group, plural) for group, plural, _, _ in self._objects))
        self._buckets: Final = [table.versions_of(group, plural)[0].bucket for group, plural in resources]
        for bucket in self._buckets:
            bucket.subscribers[self] = self._notice

    def close(self) -> None:
        for bucket in self._buckets:
            bucket.subscribers.pop(self, None)

    def _notice(self, events: Sequence[Event]) -> None:
        if any(event.entry.name == _NAME and event.entry.namespace == _NAMESPACE for event in events):
            self._changed.set()

    async def changed(self) -> None:
        """Wait until one of them has changed, and for a while: whoever changed it may not be done."""
        await self._changed.wait()
        await asyncio.sleep(_PERIOD)

    async def sync(self) -> None:
        """Make what is missing, and put right what is wrong."""
        self._changed.clear()
        service = ("", "services", _NAMESPACE, kubernetes_service(self._port))
        await self._bootstrap.create([service, *self._objects])
        for group, plural, namespace, document in self._objects:
            await self._repair(group, plural, namespace, document)

    async def _repair(self, group: str, plural: str, namespace: str, document: Json) -> None:
        resource = self._table.versions_of(group, plural)[0]
        entry = resource.bucket.get(namespace, _NAME)
        if entry is None:
            return
        stored = resource.read(entry)
        wanted = {key: value for key, value in document.items() if key != "metadata"}
        labels = {**(stored["metadata"].get("labels") or {}), **document["metadata"]["labels"]}
        if labels == stored["metadata"].get("labels") and wanted == {key: stored.get(key) for key in wanted}:
            return
        changed = {**stored, **wanted, "metadata": {**stored["metadata"], "labels": labels}}
        resource.field_manager.update(
            stored, changed, manager="kube-apiserver", api_version=resource.api_version, now=timestamp()
        )
        try:
            await self._store.put(
                resource.bucket, namespace, _NAME, encode_value(changed), expected=entry.rev, labels=labels
            )
        except WriteConflict:
            return  # the next look sees what was written


def _objects(address: str, port: int) -> list[tuple[str, str, str, Json]]:
    family = "IPv6" if ipaddress.ip_address(address).version == 6 else "IPv4"
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints = {
        "metadata": {"name": _NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }
    piece = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return [
        ("", "endpoints", _NAMESPACE, endpoints),
        ("discovery.k8s.io", "endpointslices", _NAMESPACE, piece),
    ]
