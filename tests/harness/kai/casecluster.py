"""The cluster of a kai case on the server under test: set up, scheduled cycle by cycle, and looked at.

Nodes, queues and topologies have the names that the case gives them, so only one such cluster exists at a
time. Pods and groups live in a namespace of their own. What cannot be written, the ages of objects, is what
the scheduler is told about the cluster it sees.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quarterdeck.api import Resource, Time
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.operators.kai.types import PodGroup, Queue, Topology
from quarterdeck.scheduler.decision import Bind, CycleResult
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import Snapshot
from tests.harness.case import CaseFailure
from tests.harness.objects import ServerObjects

from .compact import NAMESPACE, CompactCluster
from .server import KaiServer

Json = dict[str, Any]

_BIND_TIMEOUT: Final = 20.0
_AT_ONCE: Final = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
_RUNS: Final = frozenset({"Running", "Releasing"})
_ENDED: Final = frozenset({"Failed", "Succeeded"})


class Observed(msgspec.Struct, frozen=True):
    """A pod as the API shows it: Bound, Pending, Releasing, Failed or Succeeded, and its node."""

    state: str
    node: str = ""


class CaseCluster:
    """The cluster of one case."""

    def __init__(self, server: KaiServer, objects: ServerObjects, given: Json, namespace: str) -> None:
        self._operator: Final = server.operator
        self._objects: Final = objects
        self._now: Final = time.time()
        self._namespace: Final = namespace
        self._given: Final = given
        self._compact: Final = CompactCluster(given, self._now, namespace)
        self._pods: Final = {each["name"]: each for each in given["pods"]}
        self._groups: Final = {each["name"]: each for each in given["podGroups"]}
        self._later: Final[list[Json]] = []
        """Nodes that came after the first cycle."""
        self._ages: dict[tuple[str, str], float] = {}
        self._version = ""

    def set(self) -> None:
        """Create everything and wait until the operator has seen it."""
        latest: dict[type[Resource], str] = {}
        for kind, documents in (
            (Node, self._compact.nodes()),
            (Queue, self._compact.queues()),
            (Topology, self._compact.topologies()),
            (PodGroup, self._compact.pod_groups()),
        ):
            for document in documents:
                self._remember(document)
                latest[kind] = self._make(document)["metadata"]["resourceVersion"]
        for document in self._compact.priority_classes():
            self._objects.create(document)  # all cases use the same ones
        for compact in self._given["pods"]:
            self._make_pod(compact)
        for written, version in latest.items():
            namespace = self._namespace if written is PodGroup else ""
            self._operator.wait_seen(written, namespace, version)
        self._operator.wait_seen(Pod, self._namespace, self._version)

    def add_nodes(self, compact: Iterable[Json]) -> None:
        """Create further nodes and wait until the operator has seen them."""
        for each in compact:
            self._later.append(self._compact.node(each))
            version = self._make(self._later[-1])["metadata"]["resourceVersion"]
            self._operator.wait_seen(Node, "", version)

    def clear(self) -> None:
        """Remove what other cases would take for theirs."""
        nodes = (*self._compact.nodes(), *self._later)
        for document in (*nodes, *self._compact.queues(), *self._compact.topologies()):
            self._objects.delete(document)

    def _remember(self, document: Json) -> None:
        created = document["metadata"].pop("creationTimestamp", None)
        if created is not None:
            self._ages[document["kind"], document["metadata"]["name"]] = Time(created).timestamp()

    def _make(self, document: Json) -> Json:
        if document["kind"] in ("Node", "Queue", "Topology"):
            self._objects.delete(document)  # an earlier case may have been cut short
        made = self._objects.make(document)
        if document["kind"] == "Node" and made["spec"].get("taints"):
            path = self._objects.path(document)
            made = self._objects.request("PATCH", path, {"spec": {"taints": None}}, merge=True).json()
        return made

    def _make_pod(self, compact: Json) -> None:
        document = self._compact.pod(compact)
        for key in ("creationTimestamp", "deletionTimestamp", "uid"):
            document["metadata"].pop(key, None)
        made = self._objects.make(document)
        if document["status"]["phase"] != "Pending":
            made = self._objects.put_status(document).json()
        if compact["state"] == "Releasing":
            made = self._objects.delete(document).json()
        self._version = made["metadata"]["resourceVersion"]

    def run_cycle(self, settings: Settings) -> CycleResult:
        """One scheduling cycle; pods that it binds are bound when this returns."""
        result = self._operator.run_cycle(settings, self._revise)
        bound = {each.pod.name for each in result.decisions if isinstance(each, Bind)}
        deadline = time.monotonic() + _BIND_TIMEOUT
        while not all(self._document(name)["spec"].get("nodeName") for name in bound):
            if time.monotonic() > deadline:
                raise CaseFailure(f"not bound after {_BIND_TIMEOUT:g} s: {sorted(bound)}")
            time.sleep(0.005)
        return result

    def _revise(self, seen: Snapshot) -> Snapshot:
        """What belongs to the case, with the ages that it prescribes."""
        nodes = {each["name"] for each in self._given["nodes"]}
        nodes |= {each["metadata"]["name"] for each in self._later}
        topologies = {each["name"] for each in self._given.get("topologies") or ()}
        here = self._namespace
        return replace(
            seen,
            nodes=tuple(each for each in seen.nodes if each.name in nodes),
            pods=tuple(
                replace(each, created=0.0, uid=each.name) for each in seen.pods if each.namespace == here
            ),
            pod_groups=tuple(
                replace(each, created=self._ages["PodGroup", each.name])
                for each in seen.pod_groups
                if each.namespace == here
            ),
            queues=tuple(
                replace(each, created=self._ages["Queue", each.name])
                for each in seen.queues
                if ("Queue", each.name) in self._ages
            ),
            bind_requests=tuple(each for each in seen.bind_requests if each.namespace == here),
            topologies=tuple(each for each in seen.topologies if each.name in topologies),
        )

    def advance(self) -> None:
        """What happens between cycles: bound pods run, and evicted ones are made anew."""
        before = self._version
        documents = self._documents()
        for name, compact in self._pods.items():
            document = documents.get(name)
            if document is None:
                self._make_pod(self._anew(compact))
            elif document["metadata"].get("deletionTimestamp"):
                if compact["state"] != "Releasing" and not self._stays_away(compact):
                    self._objects.request("DELETE", self._objects.path(document), _AT_ONCE)
                    self._make_pod(self._anew(compact))
            elif document["spec"].get("nodeName") and document["status"]["phase"] == "Pending":
                document["status"]["phase"] = "Running"
                self._version = self._objects.put_status(document).json()["metadata"]["resourceVersion"]
        if self._version != before:
            self._operator.wait_seen(Pod, self._namespace, self._version)

    def _stays_away(self, compact: Json) -> bool:
        return bool(self._groups[compact["podGroup"]].get("evictedPodsNotRecreated"))

    @staticmethod
    def _anew(compact: Json) -> Json:
        made = {key: value for key, value in compact.items() if key not in ("node", "gpuGroup")}
        return {**made, "state": "Pending"}

    def observe(self) -> dict[str, Observed]:
        """The pods of the case as the API shows them."""
        documents = self._documents()
        return {name: _observe(documents.get(name)) for name in self._pods}

    def pod(self, name: str) -> Json:
        """A pod."""
        return self._document(name)

    def pod_group(self, name: str) -> Json:
        """A PodGroup."""
        metadata = {"name": name, "namespace": self._namespace}
        return self._objects.read(
            {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata}
        )

    def bind_request(self, pod: str) -> Json:
        """The order to bind a pod."""
        path = f"/apis/scheduling.run.ai/v1alpha2/namespaces/{self._namespace}/bindrequests"
        found: list[Json] = self._objects.request("GET", path).json()["items"]
        for each in found:
            if each["spec"]["podName"] == pod:
                return each
        raise CaseFailure(
            f"there is no BindRequest for {pod}: {[each['metadata']['name'] for each in found]}"
        )

    def events(self, kind: str, name: str) -> list[Json]:
        """The events about an object."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        found = self._objects.request("GET", path).json()["items"]
        return [
            each for each in found if each["regarding"]["kind"] == kind and each["regarding"]["name"] == name
        ]

    def wait_for_event(self, kind: str, name: str, wanted: Mapping[str, str]) -> None:
        """Wait for an event with these fields; ``note`` is contained in the text."""

        def is_there() -> bool:
            return any(
                all(
                    self.in_case(each.get(key, "")).find(value) >= 0 if key == "note" else each[key] == value
                    for key, value in wanted.items()
                )
                for each in self.events(kind, name)
            )

        self._objects.wait(is_there, f"no event {dict(wanted)} about {kind} {name}", timeout=10.0)

    def in_case(self, text: str) -> str:
        """A text with the namespace that the case speaks of."""
        return text.replace(self._namespace, NAMESPACE)

    def _documents(self) -> dict[str, Json]:
        answer = self._objects.request("GET", f"/api/v1/namespaces/{self._namespace}/pods")
        return {
            each["metadata"]["name"]: {"apiVersion": "v1", "kind": "Pod", **each}
            for each in answer.json()["items"]
        }

    def _document(self, name: str) -> Json:
        found: Json = self._objects.request("GET", f"/api/v1/namespaces/{self._namespace}/pods/{name}").json()
        return found


def _observe(document: Json | None) -> Observed:
    if document is None:
        return Observed("Releasing")
    node = document["spec"].get("nodeName") or ""
    phase = document["status"].get("phase", "")
    if phase in _ENDED:
        return Observed(phase, node)
    if document["metadata"].get("deletionTimestamp"):
        return Observed("Releasing", node)
    return Observed("Bound" if node else "Pending", node)


def settings_of(when: Json, *, detailed: bool = False) -> Settings:
    """The settings of a cycle that a case asks for."""
    return Settings(
        actions=tuple(Action(each) for each in when["actions"]),
        max_consolidation_preemptees=when["maxConsolidationPreemptees"],
        staleness_grace_period=when["stalenessGracePeriodSeconds"],
        use_scheduling_signatures=False,
        detailed_fit_errors=detailed,
    )


def same_pods(pods: Iterable[Json]) -> list[list[str]]:
    """Names of pods that a case does not tell apart."""
    requests = ("gpu", "gpuFraction", "gpuMemory", "cpu", "memory", "bestEffort")
    places = ("nodeAffinity", "labels", "podAffinity", "podAntiAffinity", "state", "node")
    groups: dict[str, list[str]] = {}
    for each in pods:
        place = [each.get(key) for key in ("podGroup", "subGroup", *requests, "taskPriority", *places)]
        groups.setdefault(repr(place), []).append(each["name"])
    return list(groups.values())
