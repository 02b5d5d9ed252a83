"""GPUs shared by several pods: on its node, a group is a device that holds parts up to a whole.

Amounts are whole units of a device, its memory in MiB where that is known, so that nothing is lost in
rounding. A device belongs to its group as long as a pod of the group is there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.snapshot import GpuShare

_UNITS: Final = 100
"""Units of a device whose memory is unknown."""


class _Group:
    """The pods on one device, in units, by how they hold it."""

    __slots__ = ("coming", "leaving", "running")

    def __init__(self) -> None:
        self.running = 0
        self.leaving = 0
        self.coming = 0

    @property
    def occupied(self) -> int:
        return self.running + self.leaving + self.coming

    @property
    def takes_idle(self) -> bool:
        return self.running + self.leaving > 0

    @property
    def takes_free(self) -> bool:
        """A group that only terminating pods are in gives its device back."""
        return self.running + self.coming > 0


class SharedGpus:
    """The shared devices of a node."""

    __slots__ = ("_groups", "capacity", "is_known")

    def __init__(self, gpu_memory: int) -> None:
        self.is_known: Final = gpu_memory > 0
        self.capacity: Final = gpu_memory or _UNITS
        self._groups: dict[str, _Group] = {}

    def units(self, share: GpuShare) -> int:
        """What a share takes of each device."""
        return share.memory or int(share.portion * self.capacity)

    def portion(self, share: GpuShare) -> float:
        """The part of each device that quota is charged for."""
        if share.portion:
            return share.portion
        return math.ceil(share.memory / self.capacity * 100) / 100

    def hold(self, share: GpuShare, names: Iterable[str], hold: Hold, sign: int) -> tuple[int, int]:
        """Put a pod in its groups (1) or take it out (-1): by how many devices idle and free shrink."""
        units = self.units(share) * sign
        idle = free = 0
        for name in names:
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = _Group()
            before = group.takes_idle, group.takes_free
            setattr(group, hold.value, getattr(group, hold.value) + units)
            idle += group.takes_idle - before[0]
            free += group.takes_free - before[1]
            if not group.occupied:
                del self._groups[name]
        return idle, free

    def has_room(self, share: GpuShare) -> bool:
        """Whether some device that is shared already can take the part."""
        return bool(self.fitting(share))

    def fitting(self, share: GpuShare, own: Collection[str] = ()) -> list[str]:
        """Groups that will have room for the part, fullest first.

        ``own`` names groups the pod is about to leave; they may take it back even if nobody else is there,
        and come last then: where it joins others a device becomes free.
        """
        room = self.capacity - self.units(share)
        found = [
            (not group.takes_free, -group.occupied, name)
            for name, group in self._groups.items()
            if group.running + group.coming <= room and (group.takes_free or name in own)
        ]
        return [name for _, _, name in sorted(found)]

    def has_room_now(self, share: GpuShare, name: str) -> bool:
        """Whether a group has room before its terminating pods are gone."""
        group = self._groups[name]
        return group.takes_idle and group.running + group.leaving + self.units(share) <= self.capacity

    def is_kept(self, name: str) -> bool:
        """Whether a group will have its device when terminating pods are gone."""
        return self._groups[name].takes_free

    def is_in_use(self, name: str) -> bool:
        """Whether some pod is on the device of a group now."""
        group = self._groups.get(name)
        return group is not None and group.takes_idle

    def spare(self) -> float:
        """The parts of shared devices that are or will be free, in devices."""
        if not self._groups:
            return 0.0
        units = sum(self.capacity - g.running - g.coming for g in self._groups.values() if g.takes_free)
        return units / self.capacity
