"""The end of a pod that nobody wants any more."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.container.runtime import PodRuntime
from quarterdeck.cluster.agent.record.folder import PodFolder, remove_tree
from quarterdeck.cluster.agent.shim.search import take_lock

_PERIOD: Final = 0.05
"""Seconds between two looks at containers that were killed."""


async def end_folder(
    containers: Containers, runtimes: Iterable[PodRuntime], folder: PodFolder, address: str
) -> None:
    """End the containers of a pod that nobody wants any more, and remove its folder.

    Its records are not relied upon: whoever runs a container holds its lock. ``runtimes`` are those that may
    have made something for the pod.
    """
    held: dict[Path, int] = {}

    def end() -> bool:
        """Kill what runs; the locks of all else become ours, so that nobody begins it any more."""
        is_over = True
        for name, number in folder.runs():
            path = folder.run_path(name, number)
            if path in held:
                continue
            folder.read_run(name, number)  # ends what a killed shim has left
            with suppress(FileNotFoundError):
                lock = take_lock(path)
                if lock is not None:
                    held[path] = lock
                    continue
                containers.signal(path, signal.SIGKILL)
                is_over = False
        return is_over

    try:
        while not await asyncio.to_thread(end):  # noqa: ASYNC110  the kernel tells nobody
            await asyncio.sleep(_PERIOD)
        for runtime in runtimes:
            await asyncio.to_thread(runtime.tear_down, folder, address)
        await asyncio.to_thread(remove_tree, folder.path)
    finally:
        for lock in held.values():
            os.close(lock)
