"""The runtime ``process``: a container is a process group of this machine, in namespaces where those work."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from quarterdeck.api.k8s import Pod, Service
from quarterdeck.cluster.agent.container.runtime import Wanted
from quarterdeck.cluster.agent.network.proxy import loopback_address
from quarterdeck.cluster.agent.process.image import ImageRule, find_image
from quarterdeck.cluster.agent.process.launch import Machine, make_launch
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.shim.order import Launch
from quarterdeck.wire.localnode import POD_NETWORK


class ProcessRuntime:
    """Runs programs of this machine."""

    name: Final = "process"
    network: Final[IPv4Network] = POD_NETWORK
    host: Final = "127.0.0.1"
    resolver: Final = ""

    def __init__(self, machine: Machine, images: Sequence[ImageRule], server: tuple[str, int]) -> None:
        self._machine: Final = machine
        self._images: Final = images
        self.server: Final = server
        self.shortcoming: Final = _shortcoming(machine)

    def service_address(self, service: Service) -> str:
        """Its loopback address: cluster addresses are none that this machine routes."""
        return loopback_address(service)

    def image_id(self, image: str) -> str:
        """There are none; a name is all there is."""
        return image

    def set_up(self, pod: Pod, folder: PodFolder, address: str) -> None:
        """Containers share the machine, and nothing else."""

    def launch(self, wanted: Wanted, run: Path, cgroups: Sequence[str]) -> Launch:
        """The program, with its view of the machine."""
        return make_launch(
            wanted.pod,
            wanted.container,
            folder=wanted.folder,
            run=run,
            volumes=wanted.volumes,
            environment=wanted.environment,
            image=find_image(self._images, wanted.container.image),
            machine=self._machine,
            cgroups=cgroups,
            oom_score=wanted.oom_score,
        )

    def tear_down(self, folder: PodFolder, address: str) -> None:
        """Nothing was made."""


def _shortcoming(machine: Machine) -> str:
    missing = [name for name in ("mount", "uts", "ipc", "pid") if name not in machine.namespaces]
    if not missing:
        return ""
    text = f"this machine does not allow namespaces ({', '.join(missing)}) for this user"
    if "mount" not in missing:
        return f"{text}: containers see the processes of the machine"
    return (
        f"{text}: volumes are below $QUARTERDECK_VOLUMES, and files, hostname, /etc/hosts and processes are "
        "the machine's"
    )
