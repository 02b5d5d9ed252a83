"""The end of a pod that nobody wants any more."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.container.runtime import PodRuntime
from quarterdeck.cluster.agent.pod.folder import PodFolder, remove_tree

__all__ = ["end_folder"]

_PERIOD: Final = 0.05
"""Seconds between two looks at containers that were killed."""


async def end_folder(containers: Containers, runtime: PodRuntime | None, folder: PodFolder) -> None:
    """End the containers of a pod that nobody wants any more, and remove its folder."""

    def alive() -> list[Path]:
        found = []
        for name in folder.containers():
            for number in folder.run_numbers(name):
                run = folder.read_run(name, number)
                if run is not None and not run.is_ended and folder.shim_of(name, number):
                    found.append(folder.run_path(name, number))
        return found

    while running := await asyncio.to_thread(alive):
        for path in running:
            containers.signal(path, signal.SIGKILL)
        await asyncio.sleep(_PERIOD)
    record = await asyncio.to_thread(folder.record)
    if runtime is not None and record is not None:
        await asyncio.to_thread(runtime.tear_down, folder, record.ip)
    await asyncio.to_thread(remove_tree, folder.path)
