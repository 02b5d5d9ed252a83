"""Choosing devices for claims on a node.

Requests are met in order, devices taken in the order of their names, and choices taken back where
constraints or later requests come out wrong. A search that goes on too long ends without a result: the node
is then no place for the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from quarterdeck.scheduler.device import (
    AllocatedDevice,
    Allocation,
    ClaimInfo,
    DeviceConstraintInfo,
    DeviceId,
    DeviceInfo,
    DeviceRequestInfo,
)

_MOST_STEPS: Final = 10_000

Reachable: TypeAlias = Callable[[str], Sequence[DeviceInfo]]
"""The devices of a sort that the node reaches, in order."""


def allocate(
    claims: Sequence[ClaimInfo], node: str, reachable: Reachable, is_free: Callable[[DeviceId], bool]
) -> list[Allocation] | None:
    """Devices for all claims, or none if they cannot all be met on the node."""
    search = _Search(claims, reachable, is_free)
    if not search.meet(0, 0):
        return None
    return [_allocation(search.chosen[index], node) for index in range(len(claims))]


class _Search:
    """Devices chosen so far, by claim, and what is left to choose."""

    def __init__(
        self, claims: Sequence[ClaimInfo], reachable: Reachable, is_free: Callable[[DeviceId], bool]
    ) -> None:
        self._claims: Final = claims
        self._reachable: Final = reachable
        self._is_free: Final = is_free
        self._steps = 0
        self._taken: set[DeviceId] = set()
        self.chosen: Final[list[list[tuple[DeviceRequestInfo, DeviceInfo]]]] = [[] for _ in claims]

    def meet(self, claim: int, request: int) -> bool:
        """Meet this request and all that come after it."""
        if claim == len(self._claims):
            return True
        requests = self._claims[claim].requests
        if request == len(requests):
            return self.meet(claim + 1, 0)
        return any(self._meet_with(claim, request, each) for each in requests[request])

    def _meet_with(self, claim: int, request: int, wanted: DeviceRequestInfo) -> bool:
        devices = self._reachable(wanted.sort)
        if not wanted.is_all:
            return self._choose(claim, request, wanted, devices, 0, wanted.count)
        if not devices or not all(self._may_take(claim, wanted, each) for each in devices):
            return False
        return self._choose(claim, request, wanted, devices, 0, len(devices))

    def _choose(
        self,
        claim: int,
        request: int,
        wanted: DeviceRequestInfo,
        devices: Sequence[DeviceInfo],
        start: int,
        missing: int,
    ) -> bool:
        """Choose so many of the devices from a position on, then go on with the next request."""
        if not missing:
            return self.meet(claim, request + 1)
        for place in range(start, len(devices) - missing + 1):
            self._steps += 1
            if self._steps > _MOST_STEPS:
                return False
            device = devices[place]
            if not self._may_take(claim, wanted, device):
                continue
            self._take(claim, wanted, device)
            if self._choose(claim, request, wanted, devices, place + 1, missing - 1):
                return True
            self._put_back(claim, wanted, device)
        return False

    def _may_take(self, claim: int, wanted: DeviceRequestInfo, device: DeviceInfo) -> bool:
        if not wanted.is_admin and (device.id in self._taken or not self._is_free(device.id)):
            return False
        return all(
            self._agrees(each, claim, wanted, device)
            for each in self._claims[claim].constraints
            if _concerns(each, wanted.name)
        )

    def _agrees(
        self, constraint: DeviceConstraintInfo, claim: int, wanted: DeviceRequestInfo, device: DeviceInfo
    ) -> bool:
        """Whether a device gets along with those chosen before; one without the attribute never does."""
        value = dict(device.attributes).get(constraint.attribute)
        if value is None:
            return False
        others = (
            dict(other.attributes).get(constraint.attribute)
            for request, other in self.chosen[claim]
            if _concerns(constraint, request.name)
        )
        return all((other == value) != constraint.is_distinct for other in others)

    def _take(self, claim: int, wanted: DeviceRequestInfo, device: DeviceInfo) -> None:
        self.chosen[claim].append((wanted, device))
        if not wanted.is_admin:
            self._taken.add(device.id)

    def _put_back(self, claim: int, wanted: DeviceRequestInfo, device: DeviceInfo) -> None:
        self.chosen[claim].pop()
        if not wanted.is_admin:
            self._taken.discard(device.id)


def _concerns(constraint: DeviceConstraintInfo, request: str) -> bool:
    """A constraint may name a request, or one of its alternatives."""
    names = constraint.requests
    return not names or request in names or request.partition("/")[0] in names


def _allocation(chosen: Sequence[tuple[DeviceRequestInfo, DeviceInfo]], node: str) -> Allocation:
    is_local = any(device.node for _, device in chosen)
    selectors = [device.nodes for _, device in chosen if device.nodes is not None]
    return Allocation(
        devices=tuple(AllocatedDevice(wanted.name, device.id, wanted.is_admin) for wanted, device in chosen),
        # several selectors cannot be put into one: the node that was chosen satisfies them all
        node=node if is_local or len(set(selectors)) > 1 else "",
        nodes=selectors[0] if selectors and not is_local and len(set(selectors)) == 1 else None,
    )
