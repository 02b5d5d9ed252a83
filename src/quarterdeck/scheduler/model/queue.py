"""Queues while a cycle decides: the tree, what each is entitled to, and what it has.

``allocated`` follows every placement and eviction that the cycle makes in memory, up the whole chain of
ancestors; entitlements are computed once, when the cycle begins. Pods that terminate are not in it: shares
and searches look ahead to when they are gone. They are in ``leaving``, which counts where something is to
happen now, so that a limit is not exceeded in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quarterdeck.scheduler.model.fairshare import Claim, divide
from quarterdeck.scheduler.model.task import Amounts
from quarterdeck.scheduler.snapshot import UNLIMITED, QueueInfo, QueueResource

NO_AMOUNTS: Final[Amounts] = (0, 0, 0)
_RESOURCES: Final = (0, 1, 2)
_DIGITS: Final = 6
"""Of parts of GPUs: sums of them must not drift."""


class _Account:
    """Amounts, and which of them cannot be preempted."""

    __slots__ = ("all", "non_preemptible")

    def __init__(self) -> None:
        self.all: list[float] = [0, 0, 0]
        self.non_preemptible: list[float] = [0, 0, 0]

    def add(self, amounts: Amounts, is_preemptible: bool, sign: int) -> None:
        _add(self.all, amounts, sign)
        if not is_preemptible:
            _add(self.non_preemptible, amounts, sign)


class QueueState:
    """A queue, its place in the tree and its accounts, each of CPU, memory and GPUs."""

    __slots__ = (
        "allocatable",
        "allocated",
        "chain",
        "children",
        "fair_share",
        "has_leaving",
        "info",
        "leaving",
        "limit",
        "name",
        "non_preemptible",
        "parent",
        "promised",
        "quota",
        "requested",
    )

    def __init__(self, info: QueueInfo, parent: QueueState | None) -> None:
        self.info: Final = info
        self.name: Final = info.name
        self.parent: Final = parent
        self.children: list[QueueState] = []
        self.chain: Final[tuple[QueueState, ...]] = (self, *(parent.chain if parent else ()))
        """The queue and its ancestors, up to the root."""
        resources = _resources(info)
        self.quota: Final[Amounts] = (resources[0].quota, resources[1].quota, resources[2].quota)
        self.limit: Final[Amounts] = (resources[0].limit, resources[1].limit, resources[2].limit)
        self.fair_share: Amounts = NO_AMOUNTS
        self.allocatable: Amounts = NO_AMOUNTS
        """What it may have before others may reclaim."""
        self.requested: list[float] = [0, 0, 0]
        self.allocated: list[float] = [0, 0, 0]
        self.non_preemptible: list[float] = [0, 0, 0]
        self.has_leaving = False
        self.leaving: Final = _Account()
        """What pods that terminate still hold."""
        self.promised: Final = _Account()
        """What of ``allocated`` is for pods that are yet to come."""

    @property
    def title(self) -> str:
        """The name that people know it by."""
        return self.info.display_name or self.name

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def charge(self, amounts: Amounts, is_preemptible: bool, sign: int) -> None:
        """Pods come to hold quota (1) or give it back (-1), here and in every ancestor."""
        cpu, memory, gpu = amounts
        if sign < 0:
            cpu, memory, gpu = -cpu, -memory, -gpu
        is_whole = gpu.__class__ is int
        for queue in self.chain:
            allocated = queue.allocated
            allocated[0] += cpu
            allocated[1] += memory
            allocated[2] += gpu
            if not is_whole:
                allocated[2] = round(allocated[2], _DIGITS)
            if not is_preemptible:
                _add(queue.non_preemptible, amounts, sign)

    def leave(self, amounts: Amounts, is_preemptible: bool) -> None:
        """A pod terminates, here and in every ancestor."""
        for queue in self.chain:
            queue.has_leaving = True
            queue.leaving.add(amounts, is_preemptible, 1)

    def promise(self, amounts: Amounts, is_preemptible: bool, sign: int) -> None:
        """A pod that is charged for is yet to come (1), or no longer so (-1), here and in every ancestor."""
        for queue in self.chain:
            queue.promised.add(amounts, is_preemptible, sign)

    def has_now(self, amounts: Amounts, is_preemptible: bool) -> bool:
        """Whether so much more fits beside the pods that terminate, up the whole chain.

        Where nobody terminates the answer is that of the limits and quotas, which were judged before.
        """
        return all(queue._has_now(amounts, is_preemptible) for queue in self.chain if queue.has_leaving)

    def _has_now(self, amounts: Amounts, is_preemptible: bool) -> bool:
        if _exceeds(self.limit, self.allocated, self.leaving.all, self.promised.all, amounts):
            return False
        return is_preemptible or not _exceeds(
            self.quota,
            self.non_preemptible,
            self.leaving.non_preemptible,
            self.promised.non_preemptible,
            amounts,
        )

    def request(self, amounts: Amounts) -> None:
        """Pods ask for resources, here and in every ancestor."""
        for queue in self.chain:
            _add(queue.requested, amounts, 1)

    def is_over_fair_share(self) -> bool:
        """Whether it has more than its fair share of everything."""
        share, has = self.fair_share, self.allocated
        return share[0] < has[0] and share[1] < has[1] and share[2] < has[2]

    def dominant_share(self, allocated: Iterable[float], total: Amounts) -> float:
        """The largest part it would have of anything it may have."""
        largest = 0.0
        for has, allocatable, everything in zip(allocated, self.allocatable, total, strict=True):
            base = everything if allocatable == UNLIMITED else allocatable
            # Without an entitlement any use is far over it.
            largest = max(largest, has / base if base else has * 1000)
        return largest


def plus(left: Iterable[float], right: Amounts) -> Amounts:
    """The sum of two amounts."""
    cpu, memory, gpu = left
    return (cpu + right[0], memory + right[1], gpu + right[2])


def times(amounts: Amounts, count: int) -> Amounts:
    """The same amounts so many times."""
    cpu, memory, gpu = amounts
    return (cpu * count, memory * count, gpu * count)


def at_most(left: Iterable[float], right: Iterable[float]) -> bool:
    """Whether no amount exceeds its counterpart; unlimited is more than any number."""
    for mine, theirs in zip(left, right, strict=True):
        if theirs == UNLIMITED:
            continue
        if mine == UNLIMITED or mine > theirs:
            return False
    return True


def _exceeds(
    bound: Amounts, charged: list[float], leaving: list[float], promised: list[float], more: Amounts
) -> bool:
    """Whether what is there comes to more than a bound, because of pods that terminate."""
    for resource in _RESOURCES:
        if leaving[resource] and bound[resource] != UNLIMITED:
            there = charged[resource] - promised[resource] + leaving[resource] + more[resource]
            if round(there, _DIGITS) > bound[resource]:
                return True
    return False


def _add(account: list[float], amounts: Amounts, sign: int) -> None:
    account[0] += sign * amounts[0]
    account[1] += sign * amounts[1]
    gpu = account[2] + sign * amounts[2]
    account[2] = gpu if gpu.__class__ is int else round(gpu, _DIGITS)


def _resources(info: QueueInfo) -> tuple[QueueResource, QueueResource, QueueResource]:
    return (info.cpu, info.memory, info.gpu)


_SHARED: Final = QueueInfo(
    name="default",
    cpu=QueueResource(UNLIMITED, UNLIMITED, 1),
    memory=QueueResource(UNLIMITED, UNLIMITED, 1),
    gpu=QueueResource(UNLIMITED, UNLIMITED, 1),
)
"""The parent of all leaves when the hierarchy does not count."""


def build_queues(infos: Iterable[QueueInfo], *, full_hierarchy: bool = True) -> dict[str, QueueState]:
    """The queues that have all their ancestors, by name; parents before children."""
    by_name = {info.name: info for info in sorted(infos, key=lambda info: info.name)}
    if not full_hierarchy:
        return _flat(by_name)
    states: dict[str, QueueState] = {}
    for name in by_name:
        _build(name, by_name, states, frozenset())
    return states


def _build(
    name: str, infos: Mapping[str, QueueInfo], states: dict[str, QueueState], below: frozenset[str]
) -> QueueState | None:
    if name in states:
        return states[name]
    info = infos.get(name)
    if info is None or name in below:
        return None
    parent = None
    if info.parent:
        parent = _build(info.parent, infos, states, below | {name})
        if parent is None:
            return None
    states[name] = state = QueueState(info, parent)
    if parent is not None:
        parent.children.append(state)
    return state


def _flat(infos: Mapping[str, QueueInfo]) -> dict[str, QueueState]:
    root = QueueState(_SHARED, None)
    states = {root.name: root}
    for info in infos.values():
        if info.parent:
            states[info.name] = state = QueueState(info, root)
            root.children.append(state)
    return states


def set_fair_shares(queues: Mapping[str, QueueState], total: Amounts, k: float) -> None:
    """Divide the cluster between the roots, and what each queue gets between its children."""
    _divide([queue for queue in queues.values() if queue.parent is None], total, k)
    for queue in queues.values():
        cpu, memory, gpu = (_allocatable(queue, resource) for resource in _RESOURCES)
        queue.allocatable = (cpu, memory, gpu)


def _divide(siblings: list[QueueState], total: Amounts, k: float) -> None:
    if not siblings:
        return
    shares = [divide(total[each], [_claim(queue, each) for queue in siblings], k) for each in _RESOURCES]
    for queue in siblings:
        gpus = round(shares[2][queue.name], _DIGITS)
        queue.fair_share = (shares[0][queue.name], shares[1][queue.name], gpus)
        _divide(queue.children, queue.fair_share, k)


def _claim(queue: QueueState, resource: int) -> Claim:
    return Claim(
        name=queue.name,
        quota=queue.quota[resource],
        limit=queue.limit[resource],
        weight=_resources(queue.info)[resource].over_quota_weight,
        request=queue.requested[resource],
        priority=queue.info.priority,
        created=queue.info.created,
        usage=queue.info.usage[resource],
    )


def _allocatable(queue: QueueState, resource: int) -> float:
    quota, limit = queue.quota[resource], queue.limit[resource]
    if quota == UNLIMITED:
        return limit
    entitled = max(quota, queue.fair_share[resource])
    return entitled if limit == UNLIMITED else min(limit, entitled)
