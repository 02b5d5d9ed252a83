"""Claims for devices while a cycle decides: who uses them, and which devices they have now and will have.

As with the resources of nodes, there are two accounts. A device is in use *now* as long as a pod that runs or
terminates has it; it will be in use *later* if a pod that stays or comes has it. A claim keeps its devices
as long as somebody uses it, and can be given others when the last one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quarterdeck.api import Key
from quarterdeck.api.nodeselector import selects_node
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.device import MOST_CONSUMERS, Allocation, ClaimInfo, DeviceId, DeviceInfo, Devices
from quarterdeck.scheduler.model.deviceallocation import allocate
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Task


class ClaimState:
    """A claim."""

    __slots__ = ("coming", "current", "info", "is_external", "leaving", "original", "running")

    def __init__(self, info: ClaimInfo) -> None:
        self.info: Final = info
        self.original = info.allocation
        """The devices it had before the cycle."""
        self.current = info.allocation
        """The devices of those who stay or come."""
        self.is_external = False
        """Whether somebody holds it of whom the snapshot knows nothing."""
        self.running = 0
        self.leaving = 0
        self.coming = 0

    @property
    def is_in_use(self) -> bool:
        """Whether it has its devices for good, apart from those who terminate."""
        return bool(self.running or self.coming or self.is_external)

    def can_be_used_on(self, node: NodeState) -> bool:
        """Whether a node reaches the devices that it has for good, if it has any."""
        return not self.is_in_use or self.current is None or _reaches(self.current, node)

    def devices_now(self) -> set[DeviceId]:
        """What nobody else can have now."""
        found: set[DeviceId] = set()
        if self.leaving or self.is_external:
            found |= _devices(self.original)
        if self.running:
            found |= _devices(self.current)
        return found

    def devices_later(self) -> set[DeviceId]:
        """What nobody else will have."""
        return _devices(self.current) if self.is_in_use else set()


def _devices(allocation: Allocation | None) -> set[DeviceId]:
    if allocation is None:
        return set()
    return {each.device for each in allocation.devices if not each.is_admin}


class Claims:
    """All claims and devices of a cluster."""

    __slots__ = ("_devices", "_later", "_now", "_reachable", "_sorts", "_states")

    def __init__(self, devices: Devices, claims: Iterable[ClaimInfo]) -> None:
        self._states: Final = {info.key: ClaimState(info) for info in claims}
        self._devices: Final = {device.id: device for device in devices.devices}
        self._sorts: Final[Mapping[str, tuple[DeviceId, ...]]] = devices.sorts
        self._now: Final[dict[DeviceId, ClaimState]] = {}
        self._later: Final[dict[DeviceId, ClaimState]] = {}
        self._reachable: Final[dict[tuple[str, NodeState], Sequence[DeviceInfo]]] = {}

    def named(self, keys: Iterable[Key]) -> tuple[ClaimState, ...]:
        """The claims with these names; one that does not exist is left out."""
        return tuple(state for key in keys if (state := self._states.get(key)) is not None)

    def assume(self, key: Key, allocation: Allocation) -> None:
        """A bind request gives devices to a claim that has none yet."""
        state = self._states.get(key)
        if state is not None and state.original is None:
            state.original = state.current = allocation

    def seat(self, claims: Sequence[ClaimState], hold: Hold) -> None:
        """A pod of the snapshot uses its claims with the devices that they have."""
        for claim in claims:
            setattr(claim, hold.value, getattr(claim, hold.value) + 1)

    def seal(self, tasks: Sequence[Task]) -> None:
        """All pods that use claims are known: whoever else a claim is reserved for is somebody outside."""
        pods = {task.info.uid for task in tasks}
        for task in tasks:
            task.devices = tuple(claim.original for claim in task.shape.claims)
        for claim in self._states.values():
            consumers = claim.info.consumers
            has_idle_devices = claim.info.allocation is not None and not consumers
            claim.is_external = has_idle_devices or any(each not in pods for each in consumers)
            if not claim.is_in_use:
                claim.current = None
            self._enter(claim)

    def is_possible(self, task: Task, node: NodeState, *, is_now: bool) -> bool:
        """Whether a pod could run on a node, as far as devices go; or with those it was promised."""
        if task.state is PodState.PIPELINED:
            return all(
                self._can_have(claim, allocation, node, is_now)
                for claim, allocation in zip(task.shape.claims, task.devices, strict=True)
            )
        return self._plan(task.shape.claims, node, is_now) is not None

    def hold(self, task: Task, node: NodeState, hold: Hold, sign: int) -> None:
        """A pod comes to use its claims in some way (1), or stops to (-1).

        A pod that had devices before gets the same again; for others they are chosen.
        """
        claims = task.shape.claims
        if sign > 0 and hold is not Hold.LEAVING:
            if not task.devices:
                plan = self._plan(claims, node, hold is Hold.RUNNING) or {}
                task.devices = tuple(plan.get(claim, claim.current) for claim in claims)
            for claim, allocation in zip(claims, task.devices, strict=True):
                if not claim.is_in_use:
                    claim.current = allocation
        for claim in claims:
            self._leave(claim)
            setattr(claim, hold.value, getattr(claim, hold.value) + sign)
            if not claim.is_in_use:
                claim.current = None
            self._enter(claim)

    def can_stay(self, task: Task, node: NodeState) -> bool:
        """Whether a pod that is leaving could go on with the devices it has."""
        return all(
            self._can_have(claim, allocation, node, False)
            for claim, allocation in zip(task.shape.claims, task.devices, strict=False)
        )

    def _can_have(
        self, claim: ClaimState, allocation: Allocation | None, node: NodeState, is_now: bool
    ) -> bool:
        """Whether a claim could have these very devices."""
        if claim.is_in_use:
            # It has the same devices for all its pods, and others of them may have been promised new ones.
            return claim.current == allocation and self._can_join(claim, node, is_now)
        if allocation is None or not self._can_keep(claim, allocation, node):
            return allocation is None
        return not is_now or self._is_idle(claim, allocation)

    def _plan(
        self, claims: Sequence[ClaimState], node: NodeState, is_now: bool
    ) -> dict[ClaimState, Allocation] | None:
        """The devices that claims without any would get; none if that is impossible."""
        found: dict[ClaimState, Allocation] = {}
        without: list[ClaimState] = []
        for claim in claims:
            if claim.running + claim.leaving + claim.coming >= MOST_CONSUMERS:
                return None
            if claim.is_in_use:
                if not self._can_join(claim, node, is_now):
                    return None
            elif claim.original is not None and self._can_keep(claim, claim.original, node):
                found[claim] = claim.original
            elif is_now and claim.original is not None:
                return None  # it has to be given up first
            else:
                without.append(claim)
        if without:
            made = self._allocate(without, node, is_now)
            if made is None:
                return None
            found.update(zip(without, made, strict=True))
        return found

    def _can_join(self, claim: ClaimState, node: NodeState, is_now: bool) -> bool:
        """Whether one more may use the devices that the claim has or is promised."""
        allocation = claim.current
        if allocation is None:
            return True
        if not _reaches(allocation, node):
            return False
        return not is_now or self._is_idle(claim, allocation)

    def _is_idle(self, claim: ClaimState, allocation: Allocation) -> bool:
        """Whether a claim could have devices at once: it gets others only when its own are given up."""
        if claim.original not in (None, allocation):
            return False
        return all(self._now.get(each) in (None, claim) for each in _devices(allocation))

    def _can_keep(self, claim: ClaimState, allocation: Allocation, node: NodeState) -> bool:
        """Whether a claim that everybody leaves could go on with its devices."""
        if not _reaches(allocation, node):
            return False
        return all(self._later.get(each) in (None, claim) for each in _devices(allocation))

    def _allocate(
        self, claims: Sequence[ClaimState], node: NodeState, is_now: bool
    ) -> list[Allocation] | None:
        def is_free(device: DeviceId) -> bool:
            return device not in self._later and not (is_now and device in self._now)

        return allocate(
            [claim.info for claim in claims], node.name, lambda sort: self._reach(sort, node), is_free
        )

    def _reach(self, sort: str, node: NodeState) -> Sequence[DeviceInfo]:
        known = self._reachable.get((sort, node))
        if known is None:
            found = (self._devices[each] for each in self._sorts.get(sort, ()))
            known = [each for each in found if _is_reached(each, node)]
            self._reachable[sort, node] = known = sorted(known, key=lambda each: each.id)
        return known

    def _leave(self, claim: ClaimState) -> None:
        for device in claim.devices_now():
            self._now.pop(device, None)
        for device in claim.devices_later():
            self._later.pop(device, None)

    def _enter(self, claim: ClaimState) -> None:
        for device in claim.devices_now():
            self._now[device] = claim
        for device in claim.devices_later():
            self._later[device] = claim


def _is_reached(device: DeviceInfo, node: NodeState) -> bool:
    if device.node:
        return device.node == node.name
    return device.nodes is None or selects_node(device.nodes, node.info.name, node.info.labels)


def _reaches(allocation: Allocation, node: NodeState) -> bool:
    if allocation.node:
        return allocation.node == node.name
    return allocation.nodes is None or selects_node(allocation.nodes, node.info.name, node.info.labels)
