"""What a reservation pod does: it finds out which device it was given, and writes that on itself.

The device plugin tells a container its devices by the environment. Where it does not, the driver's own tool
is asked; the pod asked for one device, so anything else is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import ConfigError

from . import names

_VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
_TOOL: Final = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
_NO_DEVICE: Final = frozenset({"", "all", "none", "void"})


async def device_of(environment: Mapping[str, str]) -> str:
    """The device of this container; ``ConfigError`` if it has none or several."""
    said = environment.get(_VARIABLE, "").rpartition("=")[2]
    found = [said] if said not in _NO_DEVICE else await _ask_driver()
    devices = [each for text in found for each in text.split(",") if each]
    if len(devices) != 1:
        raise ConfigError(f"found {len(devices)} devices, 1 was expected: request one nvidia.com/gpu")
    return devices[0]


async def _ask_driver() -> list[str]:
    try:
        process = await asyncio.create_subprocess_exec(*_TOOL, stdout=asyncio.subprocess.PIPE)
    except FileNotFoundError as error:
        raise ConfigError(f"{_VARIABLE} names no device, and there is no {_TOOL[0]} to ask") from error
    output, _ = await process.communicate()
    return output.decode().split()


async def write_device(client: Client, namespace: str, name: str, device: str) -> None:
    """Tell the binder which device a reservation pod has."""
    pod = await client.get(Pod, name, namespace)
    patch = {"metadata": {"annotations": {names.RESERVED_DEVICE_ANNOTATION: device}}}
    await client.patch(pod, MergePatch(patch))
