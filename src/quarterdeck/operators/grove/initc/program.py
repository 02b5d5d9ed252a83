"""Watches the pods of a gang until enough of them are ready.

The container finds its namespace and its gang in files, its account's token where all pods have theirs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.client import Bookmark, Client, Config
from quarterdeck.errors import ApiError, QuarterdeckError, TransportError
from quarterdeck.operators.grove import names

from .argument import ArgumentError, parse_arguments
from .waiting import missing_pods

_RETRY: Final = 2.0
"""Seconds between two tries after a watch has ended or failed."""


async def wait_for_parents(client: Client, wanted: Mapping[str, int], *, gang: str, namespace: str) -> None:
    """Return as soon as enough pods of each PodClique are ready."""
    labels = {names.PODGANG: gang}
    while True:
        try:
            listed = await client.list(Pod, namespace=namespace, labels=labels)
            pods = {pod.metadata.name: pod for pod in listed}
            if not missing_pods(wanted, pods.values()):
                return
            version = listed.resource_version
            async with client.watch(
                Pod, namespace=namespace, labels=labels, resource_version=version
            ) as events:
                async for event in events:
                    if isinstance(event, Bookmark):
                        continue
                    if event.type == "DELETED":
                        pods.pop(event.object.metadata.name, None)
                    else:
                        pods[event.object.metadata.name] = event.object
                    if not missing_pods(wanted, pods.values()):
                        return
        except (ApiError, TransportError) as error:
            print(f"cannot watch pods: {error}", file=sys.stderr, flush=True)
        await asyncio.sleep(_RETRY)


def main(arguments: Sequence[str], info: Path = Path(names.POD_INFO_PATH)) -> int:
    """The program; returns its exit code."""
    try:
        wanted = parse_arguments(arguments)
        namespace = (info / "namespace").read_text(encoding="utf-8").strip()
        gang = (info / "podgangname").read_text(encoding="utf-8").strip()
        config = Config.load()
    except (ArgumentError, OSError, QuarterdeckError) as error:
        print(f"grove-initc: {error}", file=sys.stderr, flush=True)
        return 1

    async def run() -> None:
        async with Client.connect(config) as client:
            await wait_for_parents(client, wanted, gang=gang, namespace=namespace)

    asyncio.run(run())
    return 0
