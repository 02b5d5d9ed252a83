"""What this machine has: processors, memory, disk, devices. Blocking."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.api import Quantity
from quarterdeck.cluster.agent.machine.eviction import Supply

_MIB: Final = 1024 * 1024
_MAX_PODS: Final = 250
_RESERVED_MEMORY: Final = 256 * _MIB
_RESERVED_CPU: Final = 100


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a Node says of its machine."""

    capacity: dict[str, Quantity]
    allocatable: dict[str, Quantity]
    architecture: str
    kernel: str
    os_image: str
    machine_id: str
    boot_id: str


def read_facts(directory: Path) -> MachineFacts:
    """Look at the machine; ``directory`` is on the disk that pods use."""
    cpus = len(os.sched_getaffinity(0))
    memory = read_memory()["MemTotal"]
    disk = os.statvfs(directory)
    storage = disk.f_frsize * disk.f_blocks
    gpus = _gpus()
    capacity = {
        "cpu": Quantity(str(cpus)),
        "memory": Quantity.of_bytes(memory),
        "ephemeral-storage": Quantity.of_bytes(storage),
        "pods": Quantity(str(_MAX_PODS)),
    }
    allocatable = {
        **capacity,
        "cpu": Quantity.of_milli(cpus * 1000 - _RESERVED_CPU),
        "memory": Quantity.of_bytes(max(0, memory - _RESERVED_MEMORY)),
        "ephemeral-storage": Quantity.of_bytes(int(storage * 0.9)),
    }
    if gpus:
        capacity["nvidia.com/gpu"] = allocatable["nvidia.com/gpu"] = Quantity(str(gpus))
    machine = platform.machine()
    return MachineFacts(
        capacity=capacity,
        allocatable=allocatable,
        architecture={"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
    )


def read_supplies(directory: Path) -> dict[str, Supply]:
    """What is left of what can run short, by signal; ``directory`` is on the disk that pods use."""
    memory, disk = read_memory(), os.statvfs(directory)
    most = int(_text("/proc/sys/kernel/pid_max") or "32768")
    used = int((_text("/proc/loadavg") or "0 0 0 0/0 0").split()[3].partition("/")[2] or "0")
    found = {
        "memory.available": Supply(memory["MemAvailable"], memory["MemTotal"]),
        "nodefs.available": Supply(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize),
        "pid.available": Supply(most - used, most),
    }
    if disk.f_files:  # some file systems do not count
        found["nodefs.inodesFree"] = Supply(disk.f_favail, disk.f_files)
    return found


def read_memory() -> dict[str, int]:
    """Bytes of the machine's memory, by the kernel's names such as ``MemTotal``."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: int(amount.split()[0]) * 1024 for name, _, amount in pairs}


def _gpus() -> int:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
        return sum(1 for line in found.stdout.splitlines() if line.startswith("GPU "))
    return 0


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return platform.system()


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
