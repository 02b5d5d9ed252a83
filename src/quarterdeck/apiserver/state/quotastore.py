"""The stored quotas, as admission reads and charges them (see admission.quota.Quotas)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.api.quota import Amounts
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Store, WriteConflict
from quarterdeck.wire.jsonvalue import deep_copy
from quarterdeck.wire.wallclock import timestamp

_MANAGER: Final = "kube-apiserver"


class StoredQuotas:
    """Reads and writes straight in the store: a charge must not be charged for."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._store = store
        self._resource = resource

    def list(self, namespace: str) -> Sequence[Json]:
        return [self._resource.read(entry) for entry in self._resource.bucket.scan(namespace)]

    async def write_use(self, quota: Json, used: Amounts) -> bool:
        resource = self._resource
        new = deep_copy(quota)
        new["status"]["used"] = {name: amount.canonical() for name, amount in sorted(used.items())}
        resource.field_manager.update(
            quota,
            new,
            manager=_MANAGER,
            api_version=resource.api_version,
            subresource="status",
            now=timestamp(),
        )
        meta = new["metadata"]
        try:
            await self._store.put(
                resource.bucket,
                meta["namespace"],
                meta["name"],
                await resource.to_value(new),
                expected=int(quota["metadata"]["resourceVersion"]),
                labels=meta.get("labels") or {},
            )
        except WriteConflict:
            return False
        return True
