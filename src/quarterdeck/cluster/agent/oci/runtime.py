"""The runtime ``oci``: bundles for ``crun`` or ``runc``, and the network that pods are in. For root alone."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from quarterdeck.api.k8s import Pod, Service
from quarterdeck.cluster.agent.container.cgroup import cgroup_mounts
from quarterdeck.cluster.agent.container.runtime import UnknownImage, Wanted
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError
from quarterdeck.cluster.agent.network.fabric import GATEWAY, NETWORK, Fabric
from quarterdeck.cluster.agent.network.holder import find_holder
from quarterdeck.cluster.agent.network.hosts import system_name
from quarterdeck.cluster.agent.oci.capability import NUMBERS
from quarterdeck.cluster.agent.oci.spec import Place, make_spec
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.shim.order import Bundle, Launch
from quarterdeck.cluster.agent.volume.mount import container_binds
from quarterdeck.cluster.image.document import ImageError
from quarterdeck.cluster.image.store import ImageStore, StoredImage
from quarterdeck.runtime.log.field import get_logger

_PROGRAMS: Final = ("crun", "runc")
_FILE_LIMIT: Final = 1024 * 1024
_LINK_LIMIT: Final = 40
_PROTECTS: Final = "CAP_SYS_RESOURCE"
_log: Final = get_logger(__name__)


def find_program(wanted: str = "") -> str:
    """Where the OCI runtime is, the ``wanted`` one if that is said; empty if it is not there. Blocking."""
    names = (wanted,) if wanted else _PROGRAMS
    return next(filter(None, (shutil.which(name) for name in names)), "")


def start_fabric(directory: Path, wanted: str = "") -> Fabric | None:
    """The network for the pods of a node; None where this runtime cannot be. Blocking."""
    if missing_parts(wanted):
        return None
    fabric = Fabric(directory)
    try:
        fabric.start()
    except OSError as error:
        _log.warning("no runtime oci: the network of its pods cannot be made", error=error)
        return None
    return fabric


def missing_parts(wanted: str = "") -> str:
    """Why containers cannot be run this way here; empty where they can. Blocking."""
    if os.geteuid() != 0:
        return "the runtime oci needs root: networks and mounts are root's to make"
    if not find_program(wanted):
        return f"{wanted} is not there" if wanted else f"neither {' nor '.join(_PROGRAMS)} is on the PATH"
    return ""


class OciRuntime:
    """Runs containers from imported images."""

    name: Final = "oci"
    network: Final[IPv4Network] = NETWORK
    host: Final = GATEWAY
    resolver: Final = GATEWAY

    server: Final = None
    shortcoming: Final = ""

    def __init__(self, program: str, store: ImageStore, fabric: Fabric) -> None:
        self._program: Final = program
        self._store: Final = store
        self._fabric: Final = fabric
        self._available: Final = _own_capabilities()

    def service_address(self, service: Service) -> str:
        """Its cluster address, which the fabric knows."""
        address = service.spec.cluster_ip
        return "" if address in ("", "None") or ":" in address else address

    def image_id(self, image: str) -> str:
        """The name with the digest of what it stands for."""
        found = self._find(image)
        return f"{image.partition('@')[0].rsplit(':', 1)[0]}@{found.digest}"

    def _find(self, image: str) -> StoredImage:
        found = self._store.find(image)
        if found is None:
            raise UnknownImage(
                f'Container image "{image}" is not present with pull policy of Never: nothing is pulled to a '
                "local node; import it from a file with `quarterdeck image import`"
            )
        return found

    def set_up(self, pod: Pod, folder: PodFolder, address: str) -> None:
        """Give a pod its end of the network."""
        if pod.spec.host_network is not True:
            self._fabric.join(folder.path, address)

    def launch(self, wanted: Wanted, run: Path, cgroups: Sequence[str]) -> Launch:
        """The container's bundle."""
        pod, container = wanted.pod, wanted.container
        image = self._find(container.image)
        root = self._store.root(image)
        try:
            config = self._store.config(image)
        except ImageError as error:
            raise ContainerConfigError(str(error)) from error
        whole = system_name(pod)
        place = Place(
            hostname=whole,
            namespaces=self._namespaces(pod, wanted.folder),
            passwd=_read_inside(root, "etc/passwd"),
            group=_read_inside(root, "etc/group"),
            cgroup=_cgroup_path(cgroups) if not self._is_crun else "",
            groups=cgroup_mounts(cgroups),
            oom_score=wanted.oom_score if self._may_protect else max(wanted.oom_score, _own_oom_score()),
            available=self._available,
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        )
        binds = container_binds(pod, container, wanted.folder, run, wanted.volumes, wanted.environment)
        spec = make_spec(
            pod, container, image=config, binds=binds, environment=wanted.environment, place=place
        )
        return Launch(
            argv=spec["process"]["args"],
            env={},
            cgroups=list(cgroups),
            tty=container.tty is True,
            stdin=container.stdin is True,
            stdin_once=container.stdin_once is True,
            stop_signal=config.config.stop_signal,
            bundle=Bundle(
                program=self._program,
                identity=_identity(run),
                image=str(root),
                config=spec,
                options=["--cgroup-manager=disabled"] if self._is_crun else [],
            ),
        )

    @property
    def _may_protect(self) -> bool:
        """Whether the kernel can be told to spare a container sooner than the agent itself."""
        return _PROTECTS in self._available

    @property
    def _is_crun(self) -> bool:
        """Whether the container can stay in the control groups that it is started in."""
        return os.path.basename(self._program) == "crun"

    def _namespaces(self, pod: Pod, folder: PodFolder) -> dict[str, str]:
        if pod.spec.host_network is True:
            return {"network": self._fabric.machine().namespace("net")}
        holder = find_holder(folder.path / "network.json")
        if holder is None:
            raise ContainerConfigError("the pod's network is gone")
        found = {"network": holder.namespace("net")}
        if pod.spec.host_ipc is not True:
            found["ipc"] = holder.namespace("ipc")
        return found

    def tear_down(self, folder: PodFolder, address: str) -> None:
        """Take a pod's end of the network away."""
        self._fabric.leave(folder.path, address)


def _identity(run: Path) -> str:
    """What the runtime calls a container; unique on the machine."""
    return f"qd-{hashlib.sha256(str(run).encode()).hexdigest()[:32]}"


def _cgroup_path(cgroups: Sequence[str]) -> str:
    """A group's path below its hierarchy: the node's group, and the container's in it."""
    return "/" + "/".join(Path(cgroups[0]).parts[-2:]) if cgroups else ""


def _own_capabilities() -> frozenset[str]:
    """What this process may give: its bounding set."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            bits = int(line.split()[1], 16)
            return frozenset(name for name, number in NUMBERS.items() if bits >> number & 1)
    return frozenset(NUMBERS)


def _own_oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


def _read_inside(root: Path, name: str) -> str:
    """A file of an image; links are followed inside the image only. Empty if there is none."""
    here, left, links = root, name.split("/"), 0
    while left:
        part = left.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = here if here == root else here.parent
            continue
        step = here / part
        if step.is_symlink():
            links += 1
            if links > _LINK_LIMIT:
                return ""
            target = os.readlink(step)
            here = root if target.startswith("/") else here
            left = target.split("/") + left
            continue
        here = step
    if not here.is_file():
        return ""
    with here.open(errors="replace") as file:
        return file.read(_FILE_LIMIT)
