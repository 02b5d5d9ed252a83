"""Amounts of resources as the scheduler counts them: plain numbers, no quantities.

CPU is in milli-cores, memory in bytes, GPUs in devices (with a fraction for a shared one). Everything else
a node offers is a scalar, counted in whole units by name. Pod slots are not in here: each pod takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from quarterdeck.api import Quantity

GPU: Final = "nvidia.com/gpu"
"""The resource name of whole GPUs."""

_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9]+)g\..*")

_OWN_FIELDS: Final = frozenset({"cpu", "memory", "pods", GPU})


class Resources(msgspec.Struct, frozen=True):
    """What a pod requests or a node offers."""

    cpu: int = 0
    memory: int = 0
    gpu: int | float = 0
    scalars: tuple[tuple[str, int], ...] = ()
    """Other resources by name, sorted, without zeros."""

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.gpu + other.gpu,
            _merge(self.scalars, other.scalars, 1),
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu - other.cpu,
            self.memory - other.memory,
            self.gpu - other.gpu,
            _merge(self.scalars, other.scalars, -1),
        )


NOTHING: Final = Resources()


def resources_of(amounts: Mapping[str, Quantity]) -> Resources:
    """The amounts of a resource list of the API; parts of a unit are rounded up."""
    scalars = sorted((name, amount.value) for name, amount in amounts.items() if name not in _OWN_FIELDS)
    return Resources(
        cpu=amounts["cpu"].milli_value if "cpu" in amounts else 0,
        memory=amounts["memory"].value if "memory" in amounts else 0,
        gpu=amounts[GPU].value if GPU in amounts else 0,
        scalars=tuple(each for each in scalars if each[1]),
    )


def mig_gpus(scalars: Iterable[tuple[str, int]]) -> int:
    """What queues are charged for instances of GPUs: the slices of each, as KAI counts them."""
    found = ((_MIG.fullmatch(name), count) for name, count in scalars)
    return sum(int(match[1]) * count for match, count in found if match is not None)


def _merge(
    left: Iterable[tuple[str, int]], right: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    if not right:
        return tuple(left)
    total = dict(left)
    for name, amount in right:
        total[name] = total.get(name, 0) + sign * amount
    return tuple(sorted(each for each in total.items() if each[1]))
