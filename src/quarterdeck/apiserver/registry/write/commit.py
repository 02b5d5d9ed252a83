"""Objects into the store, each against the revision it was read at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.registry.write.storedsize import ROOMY, too_large
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Entry, Store, WriteConflict, decided
from quarterdeck.wire.wallclock import timestamp

_OWN_MANAGER = "kube-apiserver"


class Commits:
    """Writes what has passed every check; WriteConflict when somebody else was faster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put(self, resource: Resource, obj: Json, expected: int) -> Entry:
        """Store an object over the revision `expected`, 0 for a new one; it gets its resourceVersion."""
        value = await resource.to_value(obj)
        if len(value) > ROOMY and too_large(resource, obj, value):
            # upstream, too, rather forgets who owns what than refuse an object
            if obj["metadata"].pop("managedFields", None):
                value = await resource.to_value(obj)
            if problem := too_large(resource, obj, value):
                raise status.plain_error(problem)
        return await self._put_value(resource, obj, value, expected)

    async def remove(self, resource: Resource, entry: Entry) -> None:
        await decided(
            self._store.delete(
                resource.bucket, entry.namespace, entry.name, expected=entry.rev, value=entry.value()
            )
        )

    async def update_stored(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Json], None],
        *,
        owns_status: bool = False,
    ) -> Json:
        """Change a stored object in place for the server itself, without admission.

        `change` may raise to refuse; it runs again when somebody else was faster. With `owns_status` the
        server is noted as owner of what it changed in the status.
        """
        while True:
            entry = resource.bucket.get(namespace, name)
            if entry is None:
                raise resource.not_found(name)
            obj = resource.read(entry)
            change(obj)
            if owns_status:
                resource.field_manager.update(
                    resource.read(entry),
                    obj,
                    manager=_OWN_MANAGER,
                    api_version=resource.api_version,
                    subresource="status",
                    now=timestamp(),
                )
            value = await resource.to_value(obj)
            if value == entry.value():
                return obj
            try:
                await self._put_value(resource, obj, value, entry.rev)
            except WriteConflict:
                continue
            return obj

    async def _put_value(self, resource: Resource, obj: Json, value: bytes, expected: int) -> Entry:
        meta = obj["metadata"]
        labels: Mapping[str, str] = meta.get("labels") or {}
        entry = await decided(
            self._store.put(
                resource.bucket,
                meta.get("namespace", ""),
                meta["name"],
                value,
                expected=expected,
                labels=labels,
                fields=resource.selectable(obj),
                mark=resource.written_mark,
            )
        )
        meta["resourceVersion"] = str(entry.rev)
        return entry
