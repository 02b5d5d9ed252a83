"""What all runs have in common, and the world of one of them: a fresh cluster with nodes, and its state."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from quarterdeck.api import DynamicObject
from quarterdeck.apiserver.auth import UserInfo
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
    patience: float
    """In which a step must come to rest, beyond what it took undisturbed."""

    @classmethod
    def real(cls) -> "Pace":
        """For processes."""
        return cls(look=0.05, quiet=0.4, calm=2.5, patience=30.0)

    @classmethod
    def virtual(cls) -> "Pace":
        """For virtual time, which costs nothing."""
        return cls(look=0.5, quiet=5.0, calm=30.0, patience=900.0)


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
    def activity(self) -> int:
        """Grows with each change of what counts."""
        return max(
            resource.bucket.last_rev
            for resource in self.cluster.server.table.all()
            if resource.qualified not in NOISE
        )

    def objects(self) -> list[StoredObject]:
        """Everything that is stored."""
        found, seen = [], set()
        for resource in self.cluster.server.table.all():
            if id(resource.bucket) in seen:
                continue
            seen.add(id(resource.bucket))
            for entry in resource.bucket.scan():
                document = {"apiVersion": resource.api_version, "kind": resource.kind, **entry.document()}
                found.append(StoredObject(resource.qualified, document))
        return found

    def resource_of(self, document: Mapping[str, Any]) -> str:
        """``widgets.example.com`` for an object's apiVersion and kind; empty if nothing serves it."""
        for resource in self.cluster.server.table.all():
            if (resource.api_version, resource.kind) == (document["apiVersion"], document["kind"]):
                return resource.qualified
        return ""
