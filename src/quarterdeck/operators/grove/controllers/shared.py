"""What the controllers share: the configuration, the backends, and the few things that are remembered.

Nothing here is needed to be right: a process that starts anew works everything out again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import Key, Scheme
from quarterdeck.client import Client
from quarterdeck.client.option import Labels
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import requires_synced_resources
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.backends.manager import BackendManager
from quarterdeck.operators.grove.backends.report import BackendReport
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.operators.grove.logic.templatehash import clique_hashes, generation_hash
from quarterdeck.operators.grove.logic.topology import ConfiguredLevel, configured_levels
from quarterdeck.operators.grove.types import ClusterTopologyBinding, PodCliqueSet, PodGang, TopologyLevel
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.source import Channel
from quarterdeck.runtime.loop.clock import LoopClock

_REMEMBERED: Final = 4096


class Hashes(msgspec.Struct, frozen=True):
    """The hashes of a set's templates."""

    generation: str
    cliques: Mapping[str, str]
    """By name of the clique."""


class SharedState:
    """One per operator."""

    def __init__(
        self,
        configuration: OperatorConfiguration,
        backends: BackendManager,
        report: BackendReport,
        *,
        init_image: str = "",
        watch_namespaces: Sequence[str] = (),
        namespace: str = "",
    ) -> None:
        """``init_image`` is what init containers run; empty if the environment does not say.

        ``watch_namespaces`` are those that this operator serves, all if empty; ``namespace`` is its own.
        """
        self.configuration = configuration
        """Only its scheduler changes while the operator runs."""
        self.backends: Final = backends
        self.report: Final = report
        self.init_image: Final = init_image
        self.is_limited: Final = bool(watch_namespaces)
        """Other operators serve other namespaces of the same cluster."""
        self._watched: Final = tuple(watch_namespaces) or ("",)
        self._namespace: Final = namespace
        self.clock: Final = LoopClock()
        self.cliques: Final = Channel()
        """PodCliques to look at again."""
        self._hashes: OrderedDict[tuple[str, int], Hashes] = OrderedDict()
        self._synced: dict[str, int] = {}

    async def start_backends(self, client: Client, recorder: Recorder) -> None:
        """Initialize the backends that the configuration names; raises ``BackendError``."""
        configuration = self.configuration
        others = configuration.scheduler.profiles if configuration.scheduler is not None else ()
        await self.backends.initialize(
            client,
            client.scheme or Scheme(),
            recorder,
            configuration.scheduler_name,
            config=configuration.options_of(configuration.scheduler_name),
            profiles={profile.name: profile.config for profile in others},
        )

    @property
    def has_topology(self) -> bool:
        """Topology-aware scheduling is on."""
        return self.configuration.topology_aware_scheduling.enabled

    @property
    def has_mnnvl(self) -> bool:
        """ComputeDomains are made for multi-node NVLink."""
        return self.configuration.network.auto_mnnvl_enabled

    @property
    def default_levels(self) -> tuple[TopologyLevel, ...]:
        """The levels of the topology that the configuration asks for; none if it leaves that to others."""
        given = self.configuration.topology_aware_scheduling.levels if self.has_topology else ()
        return configured_levels([ConfiguredLevel(each.domain, each.key) for each in given]) if given else ()

    @property
    def topology_labels(self) -> dict[str, str]:
        """What a topology has to say to be kept by this operator: nothing where it is the only one."""
        return {names.INSTALLATION: self._namespace} if self.is_limited else {}

    def keeps(self, topology: ClusterTopologyBinding) -> bool:
        """Whether a topology is this operator's to keep."""
        return self.topology_labels.items() <= topology.metadata.labels.items()

    async def gangs(self, client: Client, *, labels: Labels = None, limit: int = 0) -> list[PodGang]:
        """Gangs of the namespaces that this operator serves, as stored; raises ``ApiError``."""
        found: list[PodGang] = []
        for namespace in self._watched:
            found += await client.list(PodGang, namespace=namespace, labels=labels, limit=limit)
        return found

    async def sets(self, client: Client) -> list[PodCliqueSet]:
        """Sets of the same namespaces, as stored; raises ``ApiError``."""
        return [
            each
            for namespace in self._watched
            for each in await client.list(PodCliqueSet, namespace=namespace)
        ]

    def hashes(self, pcs: PodCliqueSet) -> Hashes:
        """The hashes of a set, computed once for each generation of it."""
        key = (pcs.metadata.uid, pcs.metadata.generation)
        known = self._hashes.get(key)
        if known is None:
            known = self._hashes[key] = Hashes(generation_hash(pcs), clique_hashes(pcs))
            if len(self._hashes) > _REMEMBERED:
                self._hashes.popitem(last=False)
        return known

    def synced(self, gang: PodGang) -> None:
        """The backend has taken the present spec of a gang over: its pods may go on."""
        if self.is_synced(gang):
            return
        self._synced[gang.metadata.uid] = gang.metadata.generation
        for group in gang.spec.podgroups:
            self.cliques.offer(Key(gang.metadata.namespace, group.name))

    def gone(self, gang: PodGang) -> None:
        """A gang is no more, or something that its backend made for it."""
        self._synced.pop(gang.metadata.uid, None)

    def is_synced(self, gang: PodGang) -> bool:
        """Whether pods of a gang need not wait for its backend; they always do for one that did not start."""
        try:
            backend = self.backends.get_for(gang)
        except BackendError:
            return False
        is_waiting = requires_synced_resources(backend)
        return not is_waiting or self._synced.get(gang.metadata.uid) == gang.metadata.generation
