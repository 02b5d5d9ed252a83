"""The Node object of this machine, its status and its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.api import ObjectMeta, Quantity, Time, owner_reference, to_dict
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import KUBERNETES_VERSION, Lease, Node
from quarterdeck.api.k8s.coordination import LeaseSpec
from quarterdeck.api.k8s.node import (
    ContainerImage,
    NodeAddress,
    NodeCondition,
    NodeRuntimeHandler,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
)
from quarterdeck.api.k8s.placement import Taint
from quarterdeck.client import Client, MergePatch, StrategicMergePatch
from quarterdeck.cluster.agent import names
from quarterdeck.cluster.agent.machine.machine import MachineFacts, read_facts
from quarterdeck.cluster.agent.machine.pressure import NodePressure
from quarterdeck.cluster.image.store import StoredImage
from quarterdeck.errors import AlreadyExists, ApiError, NotFound, TransportError
from quarterdeck.runtime.log.field import get_logger

_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEW_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 300.0
_MOST_IMAGES: Final = 50
_log: Final = get_logger(__name__)


def node_status(
    name: str,
    facts: MachineFacts,
    pressure: Collection[str],
    runtimes: tuple[str, ...],
    known: NodeStatus,
    now: Time,
    *,
    host: str = "127.0.0.1",
    images: Sequence[StoredImage] = (),
) -> NodeStatus:
    """What a Node says of its machine; ``pressure`` are the conditions that are true. Pure."""
    troubles = (
        ("MemoryPressure", "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory",
         "kubelet has insufficient memory available", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasDiskPressure", "KubeletHasNoDiskPressure",
         "kubelet has disk pressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID",
         "kubelet has insufficient PID available", "kubelet has sufficient PID available"),
    )  # fmt: skip
    before = {each.type: each for each in known.conditions}

    def condition(type: str, status: str, reason: str, message: str) -> NodeCondition:
        old = before.get(type)
        since = old.last_transition_time if old is not None and old.status == status else now
        return NodeCondition(
            type=type,
            status=status,
            reason=reason,
            message=message,
            last_heartbeat_time=now,
            last_transition_time=since,
        )

    conditions = [
        condition(type, "True", worse, bad_text)
        if type in pressure
        else condition(type, "False", better, good_text)
        for type, worse, better, bad_text, good_text in troubles
    ]
    conditions.append(condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    by_size = sorted(images, key=lambda each: -each.size)
    return known.evolve(
        capacity=facts.capacity,
        allocatable=facts.allocatable,
        addresses=(
            NodeAddress(type="InternalIP", address=host),
            NodeAddress(type="Hostname", address=name),
        ),
        conditions=tuple(conditions),
        node_info=NodeSystemInfo(
            machine_id=facts.machine_id,
            system_uuid=facts.machine_id,
            boot_id=facts.boot_id,
            kernel_version=facts.kernel,
            os_image=facts.os_image,
            container_runtime_version=f"quarterdeck-{runtimes[0]}://1",
            kubelet_version=KUBERNETES_VERSION,
            operating_system="linux",
            architecture=facts.architecture,
        ),
        images=tuple(_container_image(each) for each in by_size[:_MOST_IMAGES]),
        declared_features=("RestartAllContainersOnContainerExits",),
        runtime_handlers=tuple(NodeRuntimeHandler(name=each) for each in ("", *runtimes)),
    )


def _container_image(image: StoredImage) -> ContainerImage:
    """Names by digest first, as a kubelet has them."""
    repositories = dict.fromkeys(name.rsplit(":", 1)[0] for name in image.names)
    return ContainerImage(
        names=(*(f"{each}@{image.digest}" for each in repositories), *image.names), size_bytes=image.size
    )


class NodeRegistration:
    """Makes the Node, and says that it is alive for as long as it runs."""

    name: Final = "node-registration"
    needs_leader_election: Final = False

    def __init__(
        self,
        client: Client,
        name: str,
        directory: Path,
        *,
        host: str,
        runtimes: tuple[str, ...],
        taint: bool,
        images: Callable[[], Sequence[StoredImage]],
        pressure: NodePressure,
    ) -> None:
        """``runtimes`` begins with that of pods that name none; ``images`` is called in a thread."""
        self._client: Final = client
        self._name: Final = name
        self._directory: Final = directory
        self._runtimes: Final = runtimes
        self._taint: Final = taint
        self._host: Final = host
        self._read_images: Final = images
        self._images: Sequence[StoredImage] = ()
        self._pressure: Final = pressure
        self._facts: MachineFacts | None = None
        self.node: Node | None = None
        self._told: object = None
        self._told_at = 0.0
        self.is_registered = False

    def allocatable(self) -> Mapping[str, Quantity]:
        """What pods can have of this machine."""
        return self._facts.allocatable if self._facts is not None else {}

    def memory(self) -> int:
        """Bytes that this machine has; 0 until that is known."""
        return self._facts.capacity["memory"].value if self._facts is not None else 0

    async def run(self) -> None:
        """Register, then renew the lease and the status until cancelled."""
        while True:
            try:
                await self._beat()
            except (ApiError, TransportError) as error:
                _log.warning("the node could not tell that it is alive", error=error)
                self.node = None
            await asyncio.sleep(_RENEW_SECONDS if self.is_registered else 1.0)

    async def _beat(self) -> None:
        self._facts = await asyncio.to_thread(read_facts, self._directory)
        await self._pressure.look()
        pressure = self._pressure.conditions
        node = await self._current()
        if self.node is None or node.metadata.uid != self.node.metadata.uid:
            self._told = None  # of this one nothing has been told
        self.node = node
        self._images = await asyncio.to_thread(self._read_images)
        news = (self._facts, pressure, self._images)
        if news != self._told or time.monotonic() - self._told_at > _STATUS_SECONDS:
            await self._tell(node, pressure)
            self._told, self._told_at = news, time.monotonic()
        await self._renew(node)
        self.is_registered = True

    async def _current(self) -> Node:
        """The node of our name; one that is not that of before is registered first."""
        if self.node is not None:
            with suppress(NotFound):
                node = await self._client.get(Node, self._name)
                if node.metadata.uid == self.node.metadata.uid:
                    return node
        return await self._register()

    async def _register(self) -> Node:
        assert self._facts is not None
        labels = {
            "kubernetes.io/hostname": self._name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": self._facts.architecture,
            names.RUNTIME: self._runtimes[0],
            **{f"{names.RUNTIME}-{each}": "true" for each in self._runtimes},
        }
        taints = (Taint(key=names.LOCAL_TAINT, effect="NoSchedule"),) if self._taint else ()
        node = Node(metadata=ObjectMeta(name=self._name, labels=labels), spec=NodeSpec(taints=taints))
        try:
            return await self._client.create(node)
        except AlreadyExists:
            node = await self._client.get(Node, self._name)
            return await self._client.patch(node, MergePatch({"metadata": {"labels": labels}}))

    async def _tell(self, node: Node, pressure: Collection[str]) -> None:
        assert self._facts is not None
        now = Time.of_timestamp(time.time())
        status = node_status(
            self._name,
            self._facts,
            pressure,
            self._runtimes,
            node.status,
            now,
            host=self._host,
            images=self._images,
        )
        # A patch, which cannot meet with a conflict: others write to a Node, too, and at the same moments.
        patch = {"metadata": {"uid": node.metadata.uid}, "status": to_dict(status)}
        await self._client.status.patch(node, StrategicMergePatch(patch))

    async def _renew(self, node: Node) -> None:
        now = MicroTime.of_timestamp(time.time())
        lease = Lease(
            metadata=ObjectMeta(
                name=self._name, namespace=_LEASE_NAMESPACE, owner_references=(owner_reference(node),)
            ),
            spec=LeaseSpec(holder_identity=self._name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now),
        )
        owners = {"ownerReferences": [to_dict(each) for each in lease.metadata.owner_references]}
        try:
            await self._client.patch(lease, MergePatch({"metadata": owners, "spec": {"renewTime": now}}))
        except NotFound:
            await self._client.create(lease)
