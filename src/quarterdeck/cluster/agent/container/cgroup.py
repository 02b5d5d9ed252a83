"""Resource limits by control groups, where this user may make them. Blocking.

Version 2 is used where the machine has it and the memory controller is there; version 1, which old machines
have, for root alone. Elsewhere there are no limits, and ``missing`` says why.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.api import Quantity
from quarterdeck.api.k8s.pod import ResourceRequirements

_ROOT: Final = Path("/sys/fs/cgroup")
_CONTROLLERS: Final = ("cpu", "memory", "pids")
_PERIOD: Final = 100_000
_SHARES: Final = (2, 262_144)
"""The least and the most that the kernel takes."""
_MOST: Final = 1 << 63
_MOST_PROCESSES: Final = 4096
"""Processes of a container, so that one that forks without end harms itself."""


def limit_files(resources: ResourceRequirements, version: int) -> dict[str, dict[str, str]]:
    """What to write into which file, by controller. Pure."""
    made: dict[str, dict[str, str]] = {"pids": {"pids.max": str(_MOST_PROCESSES)}, "cpu": {}, "memory": {}}
    cpu, memory = resources.limits.get("cpu"), resources.limits.get("memory")
    shares = _shares(resources.requests.get("cpu") or cpu)
    made["cpu"] = {"cpu.weight": str(_weight(shares))} if version == 2 else {"cpu.shares": str(shares)}
    if cpu is not None:
        quota = max(1000, cpu.milli_value * _PERIOD // 1000)
        made["cpu"] |= (
            {"cpu.max": f"{quota} {_PERIOD}"}
            if version == 2
            else {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
        )
    if memory is not None:
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        made["memory"] = {name: str(memory.value)}
        if version == 2:
            made["memory"]["memory.swap.max"] = "0"
    return made


def _shares(cpu: Quantity | None) -> int:
    """A container's share of busy processors beside the others, as version 1 counts it."""
    least, most = _SHARES
    return min(most, max(least, cpu.milli_value * 1024 // 1000)) if cpu is not None else least


def _weight(shares: int) -> int:
    """The same as version 2 counts it: the curve that OCI runtimes use, on which 1024 shares weigh 100."""
    exponent = math.log2(shares)
    return math.ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))


def cgroup_mounts(groups: Sequence[str]) -> dict[str, str]:
    """Where a container sees its own groups: mount point -> folder. Pure."""
    made = {}
    for group in groups:
        first = Path(group).relative_to(_ROOT).parts[0]
        made[str(_ROOT / first if first in _CONTROLLERS else _ROOT)] = group
    return made


class Cgroups:
    """The control groups of a node's containers."""

    def __init__(self, name: str) -> None:
        """``name`` tells this node's groups from others'."""
        self._name: Final = f"quarterdeck-{name}"
        self.missing = ""
        """Why there are no limits; empty where there are."""
        self._version, self._bases = self._find()

    def _find(self) -> tuple[int, dict[str, Path]]:
        if (_ROOT / "cgroup.controllers").exists():
            base = self._second()
            if base is not None:
                return 2, {"": base}
        elif os.geteuid() == 0:
            bases = {name: _ROOT / name / self._name for name in _CONTROLLERS if (_ROOT / name).is_dir()}
            with suppress(OSError):
                for base in bases.values():
                    base.mkdir(exist_ok=True)
                if "memory" in bases:
                    return 1, bases
        self.missing = "no control group with memory and cpu is delegated to this user"
        return 0, {}

    def _second(self) -> Path | None:
        """A group of version 2 below which containers can have limits."""
        own = _ROOT
        if os.geteuid() != 0:
            line = next((each for each in _lines("/proc/self/cgroup") if each.startswith("0::")), "0::/")
            own = _ROOT / line[3:].lstrip("/")
        base = own / self._name
        try:
            base.mkdir(exist_ok=True)
            _enable(own)
            _enable(base)
        except OSError:
            with suppress(OSError):
                base.rmdir()
            return None
        return base

    def make(self, container: str, resources: ResourceRequirements) -> list[str]:
        """Groups for a container, with its limits and its weight; empty where there can be none."""
        made: list[str] = []
        for controller, files in limit_files(resources, self._version).items():
            base = self._bases.get("" if self._version == 2 else controller)
            if base is None:
                continue
            folder = base / container
            folder.mkdir(exist_ok=True)
            for name, value in files.items():
                with suppress(FileNotFoundError, PermissionError):
                    (folder / name).write_text(value)
            if str(folder) not in made:
                made.append(str(folder))
        return made

    def change(self, container: str, resources: ResourceRequirements) -> None:
        """Give a container that runs other limits. Raises ``OSError`` if it uses more memory than it may.

        The kernel of version 2 would take that limit, and end the container.
        """
        base = self._bases.get("" if self._version == 2 else "memory")
        limit = resources.limits.get("memory")
        if base is not None and limit is not None:
            use = "memory.current" if self._version == 2 else "memory.usage_in_bytes"
            before = "memory.max" if self._version == 2 else "memory.limit_in_bytes"
            used, most = (_number(base / container / name) for name in (use, before))
            if used >= limit.value and most > limit.value:
                text = f"attempting to set memory limit ({limit.value}) below current usage ({used})"
                raise OSError(errno.EBUSY, text)
        self.make(container, resources)

    def remove(self, prefix: str) -> None:
        """Remove the groups of ended containers whose names begin so."""
        for base in self._bases.values():
            for folder in base.glob(f"{prefix}*/"):  # the group's own files are not for removal
                for _ in range(20):  # the kernel takes a moment to let go of the dead
                    try:
                        folder.rmdir()
                        break
                    except FileNotFoundError:
                        break
                    except OSError:
                        time.sleep(0.01)

    def close(self) -> None:
        """Remove what is empty by now."""
        for base in self._bases.values():
            for folder in [*base.glob("*/"), base]:
                with suppress(OSError):
                    folder.rmdir()


def _enable(folder: Path) -> None:
    """Let groups below have the controllers; raises ``OSError`` where that is not ours to say."""
    enabled = (folder / "cgroup.subtree_control").read_text().split()
    wanted = [name for name in _CONTROLLERS if name not in enabled]
    if wanted:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))


def _number(path: Path) -> int:
    """What a file says; more than any machine has where it says ``max``, and 0 where there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return _MOST if text == "max" else int(text)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
