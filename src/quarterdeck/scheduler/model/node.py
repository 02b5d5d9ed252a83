"""A node while a cycle decides: what is idle now and what will be free.

Two accounts are kept. ``idle`` is what nobody occupies: running and terminating pods take from it. ``free``
is what is left once terminating pods are gone and promised pods have come: running and promised pods take
from it. A pod fits now if it fits both, and eventually if it fits ``free``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.sharing import SharedGpus
from quarterdeck.scheduler.resource import mig_gpus
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, NodeInfo

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.task import Amounts, Shape


class Account:
    """Amounts of everything a node offers."""

    __slots__ = ("cpu", "gpu", "memory", "pods", "scalars")

    def __init__(self, info: NodeInfo) -> None:
        self.cpu = info.allocatable.cpu
        self.memory = info.allocatable.memory
        self.gpu: float = info.allocatable.gpu
        self.pods = info.pods
        self.scalars = dict(info.allocatable.scalars)

    def holds(self, shape: Shape) -> bool:
        """Whether there is enough for one more pod, shared GPUs aside."""
        if self.gpu < shape.gpu or self.cpu < shape.cpu or self.memory < shape.memory or self.pods < 1:
            return False
        return not shape.scalars or all(self.scalars.get(name, 0) >= need for name, need in shape.scalars)


class Observer(Protocol):
    """Someone who keeps something about ``free`` of nodes."""

    def freed(self, node: NodeState, cpu: int, memory: int, gpu: float) -> None:
        """So much was taken from ``free`` of a node; negative amounts were given back."""

    def freed_scalar(self, name: str, amount: int) -> None:
        """The same of another resource."""


class Devices(NamedTuple):
    """Which shared GPUs of a node a pod would use."""

    groups: tuple[str, ...]
    """Devices that are shared already."""
    new: int
    """Devices to be shared from now on."""
    is_now: bool
    """Whether the pod can start on them at once."""


class NodeState:
    """A node and what is left of it."""

    __slots__ = (
        "free",
        "gpus",
        "has_gpus",
        "idle",
        "info",
        "is_available",
        "leaving",
        "name",
        "observers",
        "other_gpus",
        "ports",
        "promised_ports",
        "rank",
    )

    def __init__(self, info: NodeInfo, rank: int) -> None:
        self.info: Final = info
        self.name: Final = info.name
        self.rank: Final = rank
        """Position in the order of names."""
        self.idle: Final = Account(info)
        self.free: Final = Account(info)
        self.gpus: Final = SharedGpus(info.gpu_memory)
        self.other_gpus: Final = info.claimable_gpus + mig_gpus(info.allocatable.scalars)
        """GPUs that are claimed or cut into instances, as queues count them."""
        self.has_gpus: Final = info.allocatable.gpu > 0 or self.other_gpus > 0
        self.is_available: Final = info.is_ready and not info.is_unschedulable and not info.pressures
        self.leaving = 0
        """Number of terminating pods."""
        self.ports: Counter[HostPort] = Counter()
        """Host ports in use now."""
        self.promised_ports: Counter[HostPort] = Counter()
        """Host ports that will be in use."""
        self.observers: list[Observer] = []

    def hold(self, shape: Shape, groups: tuple[str, ...], hold: Hold, sign: int) -> None:
        """A pod comes to hold the node in some way (1), or stops to (-1)."""
        if hold is Hold.LEAVING:
            self.leaving += sign
        if not shape.is_simple:
            self._hold_more(shape, groups, hold, sign)
        cpu, memory, gpu = sign * shape.cpu, sign * shape.memory, sign * shape.gpu
        if hold is not Hold.COMING:
            idle = self.idle
            idle.cpu -= cpu
            idle.memory -= memory
            idle.gpu -= gpu
            idle.pods -= sign
        if hold is not Hold.LEAVING:
            free = self.free
            free.cpu -= cpu
            free.memory -= memory
            free.gpu -= gpu
            free.pods -= sign
            for observer in self.observers:
                observer.freed(self, cpu, memory, gpu)

    def let_go(self, shape: Shape, sign: int) -> None:
        """A pod with a simple shape that ran terminates (1), or runs on after all (-1)."""
        cpu, memory, gpu = sign * shape.cpu, sign * shape.memory, sign * shape.gpu
        self.leaving += sign
        free = self.free
        free.cpu += cpu
        free.memory += memory
        free.gpu += gpu
        free.pods += sign
        for observer in self.observers:
            observer.freed(self, -cpu, -memory, -gpu)

    def _hold_more(self, shape: Shape, groups: tuple[str, ...], hold: Hold, sign: int) -> None:
        """What only some pods take: other resources, shared GPUs, ports."""
        for name, need in shape.scalars:
            if hold is not Hold.COMING:
                self.idle.scalars[name] = self.idle.scalars.get(name, 0) - sign * need
            if hold is not Hold.LEAVING:
                self.free.scalars[name] = self.free.scalars.get(name, 0) - sign * need
                for observer in self.observers:
                    observer.freed_scalar(name, sign * need)
        if shape.share is not None:
            idle, free = self.gpus.hold(shape.share, groups, hold, sign)
            self.idle.gpu -= idle
            self.free.gpu -= free
            for observer in self.observers:
                observer.freed(self, 0, 0, free)
        if shape.constraints.host_ports:
            self._hold_ports(shape.constraints.host_ports, hold, sign)

    def _hold_ports(self, ports: tuple[HostPort, ...], hold: Hold, sign: int) -> None:
        for port in ports:
            if hold is not Hold.COMING:
                self.ports[port] += sign
            if hold is not Hold.LEAVING:
                self.promised_ports[port] += sign

    def fits_eventually(self, shape: Shape) -> bool:
        """Whether a pod fits once terminating pods are gone."""
        if not self.free.holds(shape):
            return False
        share = shape.share
        if share is None:
            return True
        if not self.can_share(share):
            return False
        return len(self.gpus.fitting(share)) + int(self.free.gpu) >= share.devices

    def can_share(self, share: GpuShare) -> bool:
        """Whether a device of the node is large enough; memory needs devices whose size is known."""
        return share.memory <= self.info.gpu_memory

    def fits_now(self, shape: Shape) -> bool:
        """Whether a pod that fits eventually can start at once.

        A part of a GPU may still have to wait for a device: the fullest one is chosen, whoever is about to
        leave it.
        """
        if not self.idle.holds(shape):
            return False
        share = shape.share
        return share is None or len(self.gpus.fitting(share)) + int(self.idle.gpu) >= share.devices

    def has_now(self, shape: Shape, groups: Collection[str], new: int = 0) -> bool:
        """Whether a pod can start at once, on these shared GPUs and so many new ones if it wants any."""
        if not self.idle.holds(shape):
            return False
        share = shape.share
        if share is None:
            return True
        new += sum(not self.gpus.is_in_use(name) for name in groups)
        return new <= int(self.idle.gpu) and all(
            self.gpus.has_room_now(share, name) for name in groups if self.gpus.is_in_use(name)
        )

    def devices_for(
        self, shape: Shape, own: Collection[str] = (), *, spreads: bool = False
    ) -> Devices | None:
        """The shared GPUs for a pod: the fullest groups with room, then new devices; none if too few.

        When spreading it is the other way round: new devices, then the emptiest groups. ``own`` are devices
        the pod is leaving itself.
        """
        share = shape.share
        assert share is not None
        spare = max(int(self.free.gpu), 0)
        fitting: list[str] = []
        for name in self.gpus.fitting(share, own):
            if self.gpus.is_kept(name):
                fitting.append(name)
            elif spare:  # a device that its last pod is about to leave counts as free
                spare -= 1
                fitting.append(name)
        if len(fitting) + spare < share.devices:
            return None
        if spreads:
            new = min(share.devices, spare)
            groups = tuple(fitting[::-1][: share.devices - new])
        else:
            groups = tuple(fitting[: share.devices])
            new = share.devices - len(groups)
        return Devices(groups, new, self.has_now(shape, groups, new))

    def takes_back(self, shape: Shape, groups: Collection[str]) -> bool:
        """Whether a pod that is leaving these shared GPUs may stay on them."""
        share = shape.share
        assert share is not None
        if not set(groups) <= set(self.gpus.fitting(share, groups)):
            return False
        return sum(not self.gpus.is_kept(name) for name in groups) <= int(self.free.gpu)

    def charge(self, shape: Shape) -> Amounts:
        """What a queue is charged for a pod on this node."""
        gpu = shape.gpu + shape.other_gpus
        if shape.share is not None:
            gpu += shape.share.devices * self.gpus.portion(shape.share)
        return (shape.cpu, shape.memory, gpu)

    @property
    def is_sound(self) -> bool:
        """Whether no more is promised of the node than it has."""
        free = self.free
        return free.cpu >= 0 and free.memory >= 0 and free.gpu >= 0 and free.pods >= 0

    def copies(self, shape: Shape) -> int:
        """How many pods of a shape will fit side by side."""
        free = self.free
        counts = [free.pods]
        if shape.cpu:
            counts.append(free.cpu // shape.cpu)
        if shape.memory:
            counts.append(free.memory // shape.memory)
        if shape.gpu:
            counts.append(int(free.gpu // shape.gpu))
        counts.extend(free.scalars.get(name, 0) // need for name, need in shape.scalars)
        if shape.share is not None:
            devices = len(self.gpus.fitting(shape.share)) + int(free.gpu)
            counts.append(devices // shape.share.devices)
        return max(min(counts), 0)

    def spare_gpus(self) -> float:
        """GPUs, and parts of shared ones, that are or will be free."""
        return self.free.gpu + self.gpus.spare()
