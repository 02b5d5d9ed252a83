"""How many volumes of a driver a node can have attached, and which it has. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.snapshot import PodInfo

_EXCEEDED: Final = "node(s) exceed max volume count"


class Volume(NamedTuple):
    """A volume of a CSI driver."""

    driver: str
    handle: str


class VolumeLimits:
    """The limits of nodes; a volume that several pods of a node use counts once."""

    def __init__(
        self,
        limits: Mapping[str, Mapping[str, int]],
        volumes: Mapping[str, frozenset[Volume]],
        attached: Iterable[tuple[str, Volume]] = (),
    ) -> None:
        """``limits`` by node and driver; ``volumes`` by the UID of a pod; ``attached`` whoever uses them."""
        self._limits: Final = limits
        self._volumes: Final = volumes
        self._users: Final[dict[str, Counter[Volume]]] = defaultdict(Counter)
        self._counts: Final[dict[str, Counter[str]]] = defaultdict(Counter)
        for node, volume in attached:
            self._use(node, volume, 1)

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod has volumes that are counted anywhere."""
        return bool(self._limits) and pod.uid in self._volumes

    def hold(self, pod: PodInfo, node: NodeState, sign: int) -> None:
        """A pod comes to a node (1) or leaves it (-1)."""
        for volume in self._volumes.get(pod.uid, ()):
            self._use(node.name, volume, sign)

    def problem(self, pod: PodInfo, node: NodeState) -> str:
        """Why a node cannot take the volumes of a pod; empty if it can."""
        limits = self._limits.get(node.name)
        if not limits:
            return ""
        users = self._users[node.name]
        new = Counter(each.driver for each in self._volumes.get(pod.uid, ()) if not users[each])
        counts = self._counts[node.name]
        is_exceeded = any(
            driver in limits and counts[driver] + count > limits[driver] for driver, count in new.items()
        )
        return _EXCEEDED if is_exceeded else ""

    def _use(self, node: str, volume: Volume, sign: int) -> None:
        users = self._users[node]
        before = users[volume]
        users[volume] += sign
        self._counts[node][volume.driver] += (users[volume] > 0) - (before > 0)
