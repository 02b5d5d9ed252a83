"""What a node needs of a way to run containers. There are two: ``process`` and ``oci``.

Containers themselves are started, signalled and entered through their shims alike (see ``container``). A
runtime says what is to be started, and has the networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Protocol

from quarterdeck.api.k8s import Pod, Service
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.cluster.agent.shim.order import Launch


class UnknownImage(ContainerConfigError):
    """An image that means nothing here, in a container without a command."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A container that is to run, and what has been made ready for it."""

    pod: Pod
    container: AnyContainer
    folder: PodFolder
    volumes: Mapping[str, Path]
    environment: Mapping[str, str]
    oom_score: int
    """How gladly the kernel ends it when memory is short, as ``oom.oom_score`` says."""


class PodRuntime(Protocol):
    """A way to run containers."""

    @property
    def name(self) -> str:
        """As in RuntimeClasses, and in container ids."""

    @property
    def network(self) -> IPv4Network:
        """Where pods have their addresses."""

    @property
    def host(self) -> str:
        """The node's address, as pods see it."""

    def service_address(self, service: Service) -> str:
        """Where pods reach a Service; empty for those that have no address."""

    @property
    def server(self) -> tuple[str, int] | None:
        """Where pods reach the API server, if not at the address of its Service."""

    @property
    def resolver(self) -> str:
        """The address that answers to names, if there is one."""

    @property
    def shortcoming(self) -> str:
        """What pods miss here that they would have elsewhere; empty if nothing."""

    def image_id(self, image: str) -> str:
        """What an image is, in a pod's status. Blocking. Raises ``UnknownImage``."""

    def set_up(self, pod: Pod, folder: PodFolder, address: str) -> None:
        """Make what the containers of a pod share; again and again. Blocking. Raises ``OSError``."""

    def launch(self, wanted: Wanted, run: Path, cgroups: Sequence[str]) -> Launch:
        """What to run; ``run`` is its folder, which may not be there yet. Blocking.

        Raises ``ContainerConfigError``.
        """

    def tear_down(self, folder: PodFolder, address: str) -> None:
        """Take away what the containers of a pod shared; they have ended. Blocking."""
