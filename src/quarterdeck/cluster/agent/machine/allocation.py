"""What the pods of a node have been given of it, and who waits for more.

As on a kubelet, a pod is taken on if what it requests is there, and a resize is granted if it fits beside the
others. One that does not is deferred, and tried again whenever somebody gives something back. What a pod was
given is kept in its folder: an agent that starts again must not give it more by mistake.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from quarterdeck.api import Quantity, decode, to_dict, value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.cluster.agent.record.folder import PodFolder
from quarterdeck.cluster.agent.shim.order import write_durably
from quarterdeck.cluster.node.admission import Rejection
from quarterdeck.cluster.node.room import amounts_wanted, room_rejection, whole_amounts

_FILE: Final = "resources.json"
_RESIZABLE: Final = ("cpu", "memory")


class Given(NamedTuple):
    """What a pod has been given."""

    containers: Mapping[str, ResourceRequirements]
    amounts: Mapping[str, int]
    """All that it requests, as ``amounts_wanted`` counts it."""


def given_of(pod: Pod) -> Given:
    """What a pod would have that is given all it asks for. Pure."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return Given(
        {each.name: each.resources for each in containers}, amounts_wanted({"spec": to_dict(pod.spec)})
    )


def with_given(pod: Pod, given: Given) -> Pod:
    """The pod as it would be if it asked for what it has. Pure."""
    if all(
        given.containers.get(each.name, each.resources) == each.resources
        for each in (*pod.spec.init_containers, *pod.spec.containers)
    ):
        return pod
    return pod.evolve(
        spec=pod.spec.evolve(
            init_containers=tuple(
                each.evolve(resources=given.containers.get(each.name, each.resources))
                for each in pod.spec.init_containers
            ),
            containers=tuple(
                each.evolve(resources=given.containers.get(each.name, each.resources))
                for each in pod.spec.containers
            ),
        )
    )


def write_given(folder: PodFolder, given: Given) -> None:
    """Keep it for the next agent. Blocking."""
    document = {
        "containers": {name: to_dict(each) for name, each in given.containers.items()},
        "amounts": given.amounts,
    }
    write_durably(folder.path / _FILE, msgspec.json.encode(document))


def read_given(folder: PodFolder) -> Given | None:
    """What an earlier agent gave; None if that is not known. Blocking."""
    try:
        document: dict[str, Any] = msgspec.json.decode((folder.path / _FILE).read_bytes())
        return Given(
            {
                name: decode(msgspec.json.encode(each), ResourceRequirements)
                for name, each in document["containers"].items()
            },
            document["amounts"],
        )
    except (OSError, msgspec.DecodeError, KeyError):
        return None


class Allocations:
    """Counts what the pods of a node have."""

    def __init__(
        self,
        allocatable: Callable[[], Mapping[str, Quantity]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocatable: Final = allocatable
        self._clock: Final = clock
        self._given: Final[dict[str, Given]] = {}
        self._waiting: Final[dict[str, tuple[Pod, float]]] = {}
        """Pods that want something else than they have, and since when."""

    def keep(self, uid: str, given: Given) -> None:
        """A pod that is here already has this."""
        self._given[uid] = given

    def of(self, uid: str) -> Given | None:
        """What a pod has."""
        return self._given.get(uid)

    def take_on(self, pod: Pod) -> Rejection | None:
        """Give a new pod what it requests, or say why not."""
        given = given_of(pod)
        rejection = self._rejection(pod.metadata.uid, given)
        if rejection is None:
            self._given[pod.metadata.uid] = given
        return rejection

    def follow(self, pod: Pod) -> tuple[Rejection | None, list[str]]:
        """Give a pod what it wants by now, if that is there.

        Why not, if it is not, and other pods that got what they waited for because this one has less now.
        """
        uid = pod.metadata.uid
        before = self._given.get(uid)
        if before is None or with_given(pod, before) is pod:
            self._given.setdefault(uid, given_of(pod))
            self._waiting.pop(uid, None)
            return None, []
        rejection = self._grant(pod)
        if rejection is None:
            return None, self._retry()
        self._waiting[uid] = (pod, self._waiting[uid][1] if uid in self._waiting else self._clock())
        return rejection, []

    def release(self, uid: str) -> list[str]:
        """A pod needs nothing any more; others that got what they waited for because of that."""
        self._waiting.pop(uid, None)
        return self._retry() if self._given.pop(uid, None) is not None else []

    def _retry(self) -> list[str]:
        waiting = sorted(self._waiting.values(), key=lambda each: self._turn(*each))
        return [pod.metadata.uid for pod, _ in waiting if self._grant(pod) is None]

    def _turn(self, pod: Pod, since: float) -> tuple[bool, int, bool, float]:
        """Who wants less than it has is first, then by priority and class, then who has waited longest."""
        before, wanted = self._given[pod.metadata.uid].amounts, given_of(pod).amounts
        wants_more = any(wanted.get(name, 0) > before.get(name, 0) for name in _RESIZABLE)
        return wants_more, -value_or(pod.spec.priority, 0), pod.status.qos_class != "Guaranteed", since

    def _grant(self, pod: Pod) -> Rejection | None:
        given = given_of(pod)
        rejection = self._rejection(pod.metadata.uid, given)
        if rejection is None:
            self._given[pod.metadata.uid] = given
            self._waiting.pop(pod.metadata.uid, None)
        return rejection

    def _rejection(self, uid: str, given: Given) -> Rejection | None:
        used = Counter[str]()
        for other, each in self._given.items():
            if other != uid:
                used.update(each.amounts)
        return room_rejection(given.amounts, used, whole_amounts(self._allocatable()))
