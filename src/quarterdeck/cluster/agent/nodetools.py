"""What all pods of a node share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from quarterdeck.api import Quantity
from quarterdeck.api.k8s import Service
from quarterdeck.client import Client
from quarterdeck.cluster.agent.container.cgroup import Cgroups
from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.container.runtime import PodRuntime
from quarterdeck.cluster.agent.machine.allocation import Allocations
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.image.store import ImageStore
from quarterdeck.runtime.contract import Recorder


class Spawn(Protocol):
    """Starts a task that somebody owns."""

    def __call__(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


@dataclass(frozen=True, kw_only=True)
class NodeTools:
    """The machine, the API and the other services of the agent, as a pod's worker uses them."""

    directory: Path
    client: Client
    containers: Containers
    dialer: Dialer
    cgroups: Cgroups
    allocations: Allocations
    images: ImageStore
    recorder: Recorder
    spawn: Spawn
    wake: Callable[[Iterable[str]], None]
    """Has pods looked at again, by uid."""
    allocatable: Callable[[], Mapping[str, Quantity]]
    memory: Callable[[], int]
    """Bytes that the machine has."""
    names: Callable[[PodRuntime], Sequence[tuple[str, str, str]]]
    """Address, name and namespace of what can be found by name."""
    headless: Callable[[str], Sequence[Service]]
    """The Services of a namespace, also those without an address."""
    services: Callable[[str, PodRuntime], tuple[Sequence[Service], Mapping[tuple[str, str], str]]]
    """The Services that a namespace sees in its environment, and where they are reached."""
