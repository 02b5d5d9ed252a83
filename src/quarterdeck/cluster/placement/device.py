"""Claims for devices (DRA): what there is, what pods claim, and the writes that give it to them.

As kube-scheduler does it, a claim is protected from deletion, gets its allocation and is reserved for the pod
before the pod is bound. Devices that a pod cannot use where they are, and nobody else uses, are given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import DeviceClass, ResourceClaim, ResourceSlice
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.resourceclaim.controller import FINALIZER
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.scheduler.device import MOST_CONSUMERS, Allocation
from quarterdeck.scheduler.deviceintake import (
    DeviceAccount,
    Slice,
    account_of,
    allocation_document,
    read_slice,
)
from quarterdeck.scheduler.deviceselector import DeviceSelectors
from quarterdeck.scheduler.model.claim import Claims
from quarterdeck.scheduler.snapshot import PodInfo

Document = Mapping[str, Any]
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_MARK: Final = b'"resourceClaims"'


def uses_devices(entry: Entry) -> bool:
    """Whether a pod may have claims; seldom a yes for one that has not."""
    return _MARK in entry.raw


class DeviceReader:
    """Reads slices, classes and claims of the cache; looks again only at what changed."""

    def __init__(self) -> None:
        self._selectors: Final = DeviceSelectors()
        self._slices: dict[str, tuple[Entry, Slice]] = {}

    def claims(self, cache: Cache) -> tuple[Claims, DeviceAccount]:
        """All claims with the devices that there are."""
        known: dict[str, tuple[Entry, Slice]] = {}
        for entry in cache.informer(ResourceSlice).entries():
            found = self._slices.get(entry.name)
            known[entry.name] = (
                found if found and found[0] is entry else (entry, read_slice(_decode(entry.raw)))
            )
        self._slices = known
        self._selectors.forget_others(set(known))
        classes = _documents(cache.informer(DeviceClass).entries())
        account = account_of(
            [part for _, part in known.values()],
            {each["metadata"]["name"]: each for each in classes},
            _documents(cache.informer(ResourceClaim).entries()),
            self._selectors.accepts,
        )
        return Claims(account.devices, account.claims), account


def problem_of(pod: PodInfo, account: DeviceAccount, cache: Cache) -> str:
    """Why the claims of a pod cannot be met on any node; empty if they can."""
    for each in pod.claims:
        entry = cache.informer(ResourceClaim).get(pod.namespace, each.claim)
        if entry is None:
            return f'resourceclaim.resource.k8s.io "{each.claim}" not found'
        if entry.is_deleting:
            return f'resourceclaim "{each.claim}" is being deleted'
        status = _decode(entry.raw).get("status") or {}
        users = status.get("reservedFor") or ()
        if len(users) >= MOST_CONSUMERS and all(user.get("uid") != pod.uid for user in users):
            return "resourceclaim in use"
        known = account.problems.get((pod.namespace, each.claim))
        if known:
            return known
    return ""


async def give_devices(
    client: Client, cache: Cache, pod: PodInfo, given: Iterable[tuple[str, Allocation | None]]
) -> bool:
    """Write what the claims of a pod get; False if one of them has changed meanwhile."""
    classes = {each["metadata"]["name"]: each for each in _documents(cache.informer(DeviceClass).entries())}
    for name, allocation in given:
        entry = cache.informer(ResourceClaim).get(pod.namespace, name)
        if entry is None or allocation is None:
            return False
        claim = _decode(entry.raw)
        status = _reserved(claim, pod, allocation, classes)
        if status is not None and not await _write(client, claim, status):
            return False
    return True


def _reserved(
    claim: Document, pod: PodInfo, allocation: Allocation, classes: Mapping[str, Document]
) -> dict[str, Any] | None:
    """The status of a claim that has its devices and serves a pod; none if it is so already."""
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    has = status.get("allocation")
    is_reserved = any(user.get("uid") == pod.uid for user in users)
    if has is not None and is_reserved:
        return None
    mine = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    return {
        "allocation": has or allocation_document(allocation, claim, classes),
        "reservedFor": users if is_reserved else [*users, mine],
    }


async def give_up_devices(client: Client, cache: Cache, pod: PodInfo) -> None:
    """Free the devices of a claim that serves nobody, or a pod alone that has no node for it."""
    for each in pod.claims:
        entry = cache.informer(ResourceClaim).get(pod.namespace, each.claim)
        claim = _decode(entry.raw) if entry is not None else {}
        status = claim.get("status") or {}
        users = [user.get("uid") for user in status.get("reservedFor") or ()]
        if status.get("allocation") is not None and users in ([], [pod.uid]):
            await _write(client, claim, {"allocation": None, "reservedFor": None})
            return  # one at a time: perhaps that is enough


async def _write(client: Client, claim: Document, status: Mapping[str, Any]) -> bool:
    """Write the status of a claim in the version that was read; False if it has another one by now."""
    metadata = claim["metadata"]
    reference = ResourceClaim(metadata=ObjectMeta(name=metadata["name"], namespace=metadata["namespace"]))
    version = metadata["resourceVersion"]
    finalizers = metadata.get("finalizers") or []
    try:
        if status["allocation"] is not None and FINALIZER not in finalizers:
            protected = {"resourceVersion": version, "finalizers": [*finalizers, FINALIZER]}
            kept = await client.patch(reference, MergePatch({"metadata": protected}))
            version = kept.metadata.resource_version
        patch = MergePatch({"metadata": {"resourceVersion": version}, "status": status})
        await client.status.patch(reference, patch)
    except (NotFound, Conflict):
        return False
    return True


def _documents(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [_decode(entry.raw) for entry in entries]
