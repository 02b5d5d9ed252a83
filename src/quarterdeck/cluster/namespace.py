"""Namespace termination: a deleted namespace is emptied, then let go.

Pods go first, with their grace; only when none is left everything else is deleted. What remains is told in
the conditions of the namespace. When nothing remains, the finalizer `kubernetes` is removed through the
finalize subresource and the server removes the object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.k8s import Namespace
from quarterdeck.client import Client, ResourceMapping, RestMapper, metadata_of
from quarterdeck.errors import ApiError, Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import Cache, Delta
from quarterdeck.runtime.queue import QueueClosed, WorkQueue

__all__ = ["NamespaceController", "Remaining", "conditions_of"]

_log = logging.getLogger("quarterdeck.cluster.namespace")
_WORKERS: Final = 4
_POD: Final = GroupVersionKind("", "v1", "Pod")
#: how soon a namespace that is not empty is looked at again
_RETRY: Final = 0.2
_SLOWEST_RETRY: Final = 5.0


class Remaining(msgspec.Struct):
    """What keeps a namespace from going away."""

    #: `configmaps.`, `widgets.example.com` -> number of objects
    resources: dict[str, int] = {}
    #: finalizer -> number of objects that carry it
    finalizers: dict[str, int] = {}
    #: resources that could not be listed or deleted
    failures: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.resources and not self.failures


def conditions_of(remaining: Remaining) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message) of the conditions that describe a namespace in deletion."""
    conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
    ]
    if remaining.failures:
        text = "Failed to delete all resource types, {} remaining: {}".format(
            len(remaining.failures), ", ".join(remaining.failures)
        )
        conditions.append(("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", text))
    else:
        text = "All content successfully deleted, may be waiting on finalization"
        conditions.append(("NamespaceDeletionContentFailure", "False", "ContentDeleted", text))
    if remaining.resources:
        listed = ", ".join(
            f"{name} has {count} resource instances" for name, count in sorted(remaining.resources.items())
        )
        conditions.append(
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {listed}",
            )
        )
    else:
        text = "All content successfully removed"
        conditions.append(("NamespaceContentRemaining", "False", "ContentRemoved", text))
    if remaining.finalizers:
        listed = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(remaining.finalizers.items())
        )
        text = f"Some content in the namespace has finalizers remaining: {listed}"
        conditions.append(("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text))
    else:
        text = "All content-preserving finalizers finished"
        conditions.append(("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", text))
    return conditions


class NamespaceController:
    """Runs until cancelled."""

    def __init__(self, client: Client, cache: Cache, mapper: RestMapper) -> None:
        self._client = client
        self._cache = cache
        self._mapper = mapper
        self._queue: WorkQueue[str] = WorkQueue()
        self._delay: dict[str, float] = {}

    async def run(self) -> None:
        self._cache.informer(Namespace).add_handler(self, name="namespace-controller")
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    def handle(self, delta: Delta) -> Awaitable[None] | None:
        if delta.new is not None and delta.new.is_deleting:
            self._queue.add(delta.new.name)
        elif delta.new is None:
            self._delay.pop(delta.entry.name, None)
        return None

    async def _work(self) -> None:
        while True:
            try:
                name = await self._queue.get()
            except QueueClosed:
                return
            try:
                is_done = await self._empty(name)
            except QuarterdeckError as error:
                _log.warning("cannot empty namespace", extra={"namespace": name, "error": str(error)})
                is_done = False
            finally:
                self._queue.done(name)
            if not is_done:
                delay = self._delay.get(name, _RETRY)
                self._delay[name] = min(delay * 1.5, _SLOWEST_RETRY)
                self._queue.add(name, after=delay)

    async def _empty(self, name: str) -> bool:
        """Delete what is there; True when the namespace is finished or not ours to finish."""
        try:
            namespace = await self._client.get(Namespace, name)
        except NotFound:
            return True
        if not namespace.metadata.is_deleting or "kubernetes" not in (namespace.spec.finalizers or ()):
            return True
        remaining = await self._delete_content(name)
        if not remaining.is_empty:
            await self._report(namespace, remaining)
            return False
        await self._finalize(namespace)
        return True

    async def _delete_content(self, namespace: str) -> Remaining:
        await self._mapper.refresh()
        mappings = _one_each(await self._mapper.all())
        pods = [mapping for mapping in mappings if mapping.gvk == _POD]
        remaining = Remaining({}, {}, [])
        for mapping in pods:
            await self._delete_all(mapping, namespace, remaining)
        if not remaining.is_empty:  # other objects may still serve the pods that are winding down
            return remaining
        for mapping in mappings:
            if mapping.gvk != _POD:
                await self._delete_all(mapping, namespace, remaining)
        return remaining

    async def _delete_all(self, mapping: ResourceMapping, namespace: str, remaining: Remaining) -> None:
        kind = metadata_of(mapping.gvk)
        try:
            found = await self._client.list(kind, namespace=namespace)
            for item in found.items:
                if not item.metadata.is_deleting:
                    await self._delete_one(kind, item.metadata.name, namespace)
            if found.items:
                found = await self._client.list(kind, namespace=namespace)
        except ApiError as error:
            if error.code in (404, 405):  # the kind went away meanwhile
                return
            remaining.failures.append(f"{mapping.gvr.resource}.{mapping.gvk.group}: {error}")
            return
        if found.items:
            remaining.resources[f"{mapping.gvr.resource}.{mapping.gvk.group}"] = len(found.items)
            for item in found.items:
                for finalizer in item.metadata.finalizers or ():
                    remaining.finalizers[finalizer] = remaining.finalizers.get(finalizer, 0) + 1

    async def _delete_one(self, kind: Any, name: str, namespace: str) -> None:
        try:
            await self._client.delete(kind, name, namespace, propagation="Background")
        except NotFound:
            return

    async def _report(self, namespace: Namespace, remaining: Remaining) -> None:
        """Write the conditions, if they say something new."""
        document = msgspec.json.decode(namespace.to_bytes())
        status = document.setdefault("status", {})
        known = {condition["type"]: condition for condition in status.get("conditions") or ()}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = []
        for kind, value, reason, message in conditions_of(remaining):
            before = known.get(kind, {})
            changed = before.get("lastTransitionTime", now) if before.get("status") == value else now
            conditions.append(
                {
                    "type": kind,
                    "status": value,
                    "lastTransitionTime": changed,
                    "reason": reason,
                    "message": message,
                }
            )
        if status.get("conditions") == conditions:
            return
        status["conditions"] = conditions
        updated = Namespace.from_bytes(msgspec.json.encode(document))
        try:
            await self._client.status.update(updated)
        except (Conflict, NotFound):
            return  # looked at again soon

    async def _finalize(self, namespace: Namespace) -> None:
        document = msgspec.json.decode(namespace.to_bytes())
        finalizers = [each for each in document["spec"].get("finalizers") or () if each != "kubernetes"]
        document["spec"]["finalizers"] = finalizers
        try:
            await self._client.subresource("finalize").update(
                Namespace.from_bytes(msgspec.json.encode(document))
            )
        except NotFound:
            return


def _one_each(mappings: Sequence[ResourceMapping]) -> list[ResourceMapping]:
    """One version of each namespaced resource that can be listed and deleted."""
    chosen: dict[tuple[str, str], ResourceMapping] = {}
    for mapping in mappings:
        if mapping.is_namespaced and {"list", "delete"} <= mapping.verbs:
            chosen.setdefault((mapping.gvk.group, mapping.gvr.resource), mapping)
    return list(chosen.values())
