"""What containers and the whole machine use, read from ``/proc`` every few seconds."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from quarterdeck.cluster.agent.machine.machine import read_memory

_PERIOD: Final = 10.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
Container = tuple[str, str]
"""The uid of a pod, and the name of a container."""


class Process(NamedTuple):
    """One process."""

    parent: int
    cpu: float
    """Seconds, with those of children that have ended."""
    memory: int
    """Bytes."""


class Sample(NamedTuple):
    """What a container had used at a moment."""

    cpu: float
    memory: int
    processes: int = 0


def total_below(processes: Mapping[int, Process], first: int) -> Sample:
    """What a process and all below it have used; that of the first itself is not counted. Pure."""
    children: dict[int, list[int]] = {}
    for number, process in processes.items():
        children.setdefault(process.parent, []).append(number)
    cpu, memory, count, open_ends = 0.0, 0, 0, list(children.get(first, ()))
    while open_ends:
        number = open_ends.pop()
        cpu += processes[number].cpu
        memory += processes[number].memory
        count += 1
        open_ends += children.get(number, ())
    return Sample(cpu, memory, count)


def rates(
    before: Mapping[Container, Sample], after: Mapping[Container, Sample], seconds: float
) -> dict[Container, tuple[int, int]]:
    """Thousandths of a processor and bytes, by container. Pure."""
    made = {}
    for container, sample in after.items():
        earlier = before.get(container)
        used = max(0.0, sample.cpu - earlier.cpu) if earlier is not None else 0.0
        made[container] = (round(used / seconds * 1000) if seconds > 0 else 0, sample.memory)
    return made


def machine_sample(statistics: str, memory: Mapping[str, int]) -> Sample:
    """What the whole machine had used, from ``/proc/stat`` and what ``/proc/meminfo`` says. Pure.

    The memory is what programs could not have: the counterpart of what eviction looks at.
    """
    user, nice, system, _idle, _waiting, *interrupts = (int(each) for each in statistics.split()[1:9])
    busy = (user + nice + system + sum(interrupts)) / _TICKS
    return Sample(busy, max(0, memory["MemTotal"] - memory["MemAvailable"]))


def read_processes() -> dict[int, Process]:
    """All processes of the machine. Blocking."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        cpu = sum(int(each) for each in fields[11:15]) / _TICKS
        found[int(entry.name)] = Process(int(fields[1]), cpu, int(fields[21]) * _PAGE)
    return found


class UsageWatch:
    """Measures the containers of a node; a runnable of the manager."""

    name: Final = "usage"
    needs_leader_election: Final = False

    def __init__(self, shims: Callable[[], Iterable[tuple[Container, int]]]) -> None:
        """``shims`` gives the containers that run, each with the process beside it; called in a thread."""
        self._shims: Final = shims
        self.samples: dict[Container, Sample] = {}
        self._at = 0.0
        self._measuring: Final = threading.Lock()
        self.found: dict[Container, tuple[int, int]] = {}
        """Thousandths of a processor and bytes that each container uses."""
        self._machine_sample: Sample | None = None
        self.machine = (0, 0)
        """The same of the whole machine."""

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.to_thread(self.measure)
            await asyncio.sleep(_PERIOD)

    def measure(self) -> None:
        """Measure now. Blocking."""
        with self._measuring:  # whoever decides by it does not wait for the next round
            self._measure()

    def _measure(self) -> None:
        shims = list(self._shims())
        processes = read_processes() if shims else {}
        now = time.monotonic()
        # Below the shim is the first process, which is ours; everything below that is the container.
        samples = {}
        for container, shim in shims:
            inits = [number for number, each in processes.items() if each.parent == shim]
            parts = [total_below(processes, init) for init in inits]
            samples[container] = Sample(
                sum(each.cpu for each in parts),
                sum(each.memory for each in parts),
                sum(each.processes for each in parts),
            )
        whole = machine_sample(Path("/proc/stat").read_text().partition("\n")[0], read_memory())
        before = whole if self._machine_sample is None else self._machine_sample
        seconds = now - self._at
        self.machine = (round(max(0.0, whole.cpu - before.cpu) / seconds * 1000), whole.memory)
        self._machine_sample = whole
        self.found = rates(self.samples, samples, seconds)
        self.samples, self._at = samples, now
