"""What all runs have in common, and the world of one of them: a fresh cluster with nodes, and its state."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from quarterdeck.api import DynamicObject
from quarterdeck.apiserver.auth import UserInfo
from quarterdeck.apiserver.storage import Entry
from quarterdeck.client import InProcessTransport
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing.cluster import Definition, TestCluster
from quarterdeck.testing.fault import FaultPlan
from quarterdeck.testing.link import Link
from quarterdeck.testing.torture.picture import NOISE, StoredObject
from quarterdeck.testing.torture.schema import Change
from quarterdeck.testing.torture.subject import OPERATOR, MakeSubject, Subject, binding_of

Json = dict[str, Any]
LEASES: Final = "leases.coordination.k8s.io"
_CONFIG_MAPS: Final = "configmaps"
_ADMINISTRATOR: Final = {"kind": "ClusterRole", "metadata": {"name": "cluster-admin"}}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long things may take, in seconds of the clock that the operator lives by."""

    look: float
    """Between two looks at the state."""
    quiet: float
    """Without a write, after which it is at rest if the state is as expected."""
    calm: float
    """The same where nobody knows what to expect."""
    learning: float
    """The same in undisturbed runs, from which all others are judged: what comes later is missed."""
    patience: float
    """In which a step must come to rest, beyond what it took undisturbed."""

    @classmethod
    def real(cls) -> "Pace":
        """For processes."""
        return cls(look=0.05, quiet=0.4, calm=2.5, learning=8.0, patience=30.0)

    @classmethod
    def virtual(cls) -> "Pace":
        """For virtual time, which costs nothing."""
        return cls(look=0.5, quiet=5.0, calm=30.0, learning=60.0, patience=400.0)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where runs take place."""

    subject: MakeSubject
    crds: Sequence[Definition] = ()
    install: Sequence[Json] = ()
    """What is there before the operator: its roles, configuration, what samples refer to."""
    nodes: int = 3
    user: str = OPERATOR
    """Whom the operator's requests are from."""
    is_admin: bool = True
    """Whether that user may do everything; otherwise ``install`` says what."""
    pace: Pace = field(default_factory=Pace.real)
    is_virtual: bool = False
    """Whether time is virtual; only for operators in this process."""
    kept: frozenset[str] = frozenset()
    """Resources that are meant to outlive the object they were made for."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Changes of the sample's fields, by name: see ``schema``."""

    @asynccontextmanager
    async def world(self) -> AsyncIterator["World"]:
        """A fresh cluster; the operator has not started."""
        workloads = Workloads(storage_class="standard", nodes=NodeSettings(count=self.nodes))
        async with TestCluster(crds=self.crds, controllers=workloads) as cluster:
            if self.is_admin:
                await cluster.client.create(DynamicObject(binding_of(_ADMINISTRATOR, self.user)))
            for document in self.install:
                await cluster.client.create(DynamicObject(document))
            await self._wait_for_nodes(cluster)
            async with self.subject(cluster) as subject:
                yield World(self, cluster, subject)

    async def _wait_for_nodes(self, cluster: TestCluster) -> None:
        nodes = cluster.server.table.versions_of("", "nodes")[0].bucket
        async with asyncio.timeout(60.0):
            while nodes.count < self.nodes:  # noqa: ASYNC110  a bucket tells nobody
                await asyncio.sleep(self.pace.look)
        # Numbers that an operator should not rely on differ from run to run.
        for place in range(random.randrange(1, 8)):  # noqa: S311  no secret
            name = {"name": f"chance-{place}", "namespace": "default"}
            await cluster.client.create(
                DynamicObject({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name})
            )


def _is_lock(entry: Entry) -> bool:
    return b"control-plane.alpha.kubernetes.io/leader" in entry.body


class World:
    """The cluster of one run, seen from above."""

    def __init__(self, scene: Scene, cluster: TestCluster, subject: Subject) -> None:
        self.cluster: Final = cluster
        self.client: Final = cluster.client
        self.subject: Final = subject
        self._user: Final = UserInfo(scene.user, groups=("system:serviceaccounts", "system:authenticated"))
        self.baseline: Final = frozenset(each.uid for each in self.objects())

    def link(self, plan: FaultPlan) -> Link:
        """A line for one life of the operator."""
        server = self.cluster.server.local(self._user)
        return Link(InProcessTransport(server), plan=plan, name="operator", clock=self.cluster.clock)

    @property
    def revision(self) -> int:
        """Of the latest change of anything."""
        return self.cluster.server.store.rev

    @property
    def activity(self) -> tuple[int, int]:
        """Differs after each change of what counts."""
        table = self.cluster.server.table
        others = max(
            resource.bucket.last_rev
            for resource in table.all()
            if resource.qualified not in NOISE and resource.qualified != _CONFIG_MAPS
        )
        maps = [
            entry.rev for entry in table.versions_of("", _CONFIG_MAPS)[0].bucket.scan() if not _is_lock(entry)
        ]
        return max(others, *maps), len(maps)

    def objects(self) -> list[StoredObject]:
        """Everything that is stored, without what leaders hold."""
        return [each for each, is_lock in self._stored() if not is_lock]

    def locks(self) -> list[StoredObject]:
        """What leaders hold: Leases, and in older programs ConfigMaps."""
        held = [each for each, is_lock in self._stored() if is_lock or each.resource == LEASES]
        return [each for each in held if each.uid not in self.baseline]

    def _stored(self) -> Iterator[tuple[StoredObject, bool]]:
        seen = set()
        for resource in self.cluster.server.table.all():
            if id(resource.bucket) in seen:
                continue
            seen.add(id(resource.bucket))
            for entry in resource.bucket.scan():
                document = {"apiVersion": resource.api_version, "kind": resource.kind, **entry.document()}
                is_lock = resource.qualified == _CONFIG_MAPS and _is_lock(entry)
                yield StoredObject(resource.qualified, document), is_lock

    def is_lock(self, namespace: str, name: str) -> bool:
        """Whether a ConfigMap is what a leader holds."""
        entry = self.cluster.server.table.versions_of("", _CONFIG_MAPS)[0].bucket.get(namespace, name)
        return entry is not None and _is_lock(entry)

    def resource_of(self, document: Mapping[str, Any]) -> str:
        """``widgets.example.com`` for an object's apiVersion and kind; empty if nothing serves it."""
        for resource in self.cluster.server.table.all():
            if (resource.api_version, resource.kind) == (document["apiVersion"], document["kind"]):
                return resource.qualified
        return ""
