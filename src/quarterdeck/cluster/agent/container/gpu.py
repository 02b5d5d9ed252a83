"""Which GPUs of the machine a container has. Blocking.

They are written down in the pod's folder, so that another agent knows them, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.api import Quantity
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.record.folder import PodFolder, pod_folders
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.cluster.agent.shim.order import write_durably

RESOURCE: Final = "nvidia.com/gpu"
_FILE: Final = "gpus.json"
_taking: Final = threading.Lock()
Devices = dict[str, tuple[int, ...]]
"""Numbers of GPUs by container."""


def free_devices(count: int, taken: Iterable[int]) -> list[int]:
    """Numbers of the GPUs that nobody has. Pure."""
    return sorted(set(range(count)) - set(taken))


def take_devices(
    folder: PodFolder, container: str, wanted: int, *, count: int, others: Iterable[PodFolder]
) -> tuple[int, ...]:
    """The GPUs of a container of a machine that has ``count``: those it had, or free ones.

    Raises ``ContainerConfigError`` if there are too few; the scheduler counts, so that is a matter of time.
    """
    with _taking:  # several pods may ask at once, in threads
        own = _read(folder)
        if len(own.get(container, ())) == wanted:
            return own[container]
        held = [_read(each) for each in others if each.uid != folder.uid]
        held.append({name: devices for name, devices in own.items() if name != container})
        free = free_devices(count, (one for each in held for devices in each.values() for one in devices))
        if len(free) < wanted:
            raise ContainerConfigError(f"container {container} wants {wanted} GPUs, and {len(free)} are free")
        own[container] = tuple(free[:wanted])
        write_durably(folder.path / _FILE, msgspec.json.encode(own))
        return own[container]


def give_back(folder: PodFolder) -> None:
    """A pod has ended: its GPUs are free."""
    (folder.path / _FILE).unlink(missing_ok=True)


def gpu_variables(devices: Iterable[int]) -> dict[str, str]:
    """What tells programs, and the vendor's tools for containers, which devices are theirs. Pure."""
    numbers = ",".join(str(each) for each in devices)
    return {"NVIDIA_VISIBLE_DEVICES": numbers or "void", "CUDA_VISIBLE_DEVICES": numbers}


def container_variables(
    folder: PodFolder, container: AnyContainer, installed: Quantity | None, node: Path
) -> dict[str, str]:
    """The variables that give a container its GPUs; nothing where there are none."""
    if installed is None:
        return {}
    wanted = container.resources.limits.get(RESOURCE)
    if wanted is None:
        return gpu_variables(())
    others = pod_folders(node)
    return gpu_variables(
        take_devices(folder, container.name, wanted.value, count=installed.value, others=others)
    )


def _read(folder: PodFolder) -> Devices:
    try:
        return msgspec.json.decode((folder.path / _FILE).read_bytes(), type=Devices)
    except (OSError, msgspec.DecodeError):
        return {}
