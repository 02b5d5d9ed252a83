"""Following owner references from a pod to the object at the top.

Owners are of any kind, so they are read from the server; what was read is remembered for a few seconds,
because all pods of a gang ask for the same owners at the same time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from quarterdeck.api import DynamicObject, GroupVersionKind, OwnerReference
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ApiError, Forbidden, NoKindMatch
from quarterdeck.operators.kai.logic.grouping import GroupingError

MEMORY: Final = 5.0
"""Seconds for which an object is remembered."""
CAPACITY: Final = 10_000
MAX_DEPTH: Final = 32
"""Owners above each other; more can only be a ring."""


class RememberingReader:
    """Reads objects of any kind from the server, each at most once in a few seconds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._read: Final[OrderedDict[tuple[GroupVersionKind, str, str], tuple[float, DynamicObject]]] = (
            OrderedDict()
        )

    async def get(
        self, kind: GroupVersionKind, name: str, namespace: str = "", *, uid: str = ""
    ) -> DynamicObject:
        """One object; one that is remembered with another UID than ``uid`` is read again."""
        slot, now = (kind, namespace, name), self._clock.monotonic()
        until, known = self._read.get(slot, (0.0, None))
        if known is not None and now < until and uid in ("", known.metadata.uid):
            return known
        found = await self._client.get(kind, name, namespace)
        self._read[slot] = (now + MEMORY, found)
        self._read.move_to_end(slot)
        while len(self._read) > CAPACITY:
            self._read.popitem(last=False)
        return found

    async def owner(self, reference: OwnerReference, namespace: str) -> DynamicObject:
        """An owner; raises ``GroupingError`` if it is gone, ``Forbidden`` if it may not be read."""
        kind = GroupVersionKind.parse(reference.api_version, reference.kind)
        where = f"failed to find {kind.kind}: <{namespace}/{reference.name}>, uid: <{reference.uid}>"
        try:
            mapping = await self._client.mapper.mapping(kind)
            place = namespace if mapping.is_namespaced else ""
            owner = await self.get(kind, reference.name, place, uid=reference.uid)
        except Forbidden:
            raise
        except (ApiError, NoKindMatch) as error:
            raise GroupingError(f"{where}: {error}") from error
        if owner.metadata.uid != reference.uid:
            raise GroupingError(f"{where}: Owner resource with uid {reference.uid} not found")
        return owner


async def owners_of(pod: Pod, reader: RememberingReader) -> tuple[DynamicObject, ...]:
    """From the owner of a pod up to the top; empty if the pod has none.

    An owner that may not be read ends the way: the one below it counts as the top. Raises ``GroupingError``
    for owners that are gone, or that have several owners themselves.
    """
    found: list[DynamicObject] = []
    references, namespace = pod.metadata.owner_references, pod.metadata.namespace
    while references and len(found) < MAX_DEPTH:
        reference = references[0]
        try:
            owner = await reader.owner(reference, namespace)
        except Forbidden:
            break
        found.append(owner)
        references = owner.metadata.owner_references
        if len(references) > 1:
            several = ", ".join(f"{each.kind} {each.name}" for each in references)
            raise GroupingError(
                f"found {reference.kind} <{reference.name} in namespace {namespace}> "
                f"with multiple owners: {several}"
            )
    return tuple(found)
