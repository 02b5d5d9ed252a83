"""The compact form of clusters in kai cases, written out as Kubernetes objects.

Creation times that a case prescribes cannot be written through an API server; they stand in the objects
all the same, for whoever reads them from there.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Time
from tests.harness.words import refuse_unknown, words

Json = dict[str, Any]

NAMESPACE: Final = "default"
SCHEDULER: Final = "kai-scheduler"
_MINUTE: Final = 60.0
_BOUND: Final = frozenset({"Running", "Bound", "Releasing"})
_UNLIMITED: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


_SHARE: Final = words("quota", "limit", "overQuotaWeight")
_CONSTRAINT: Final = words("topology", "requiredTopologyLevel", "preferredTopologyLevel")
_TERM: Final = words("topologyKey", "matchLabels")

NODE: Final = words("name", "gpus", "cpu", "memory", "pods", "labels")
QUEUE: Final = words(
    "name", "parentQueue", "priority", "displayName", "createdOrder",
    gpu=_SHARE, cpu=_SHARE, memory=_SHARE,
)  # fmt: skip
POD_GROUP: Final = words(
    "name", "queue", "priority", "preemptibility", "minMember", "minSubGroup", "markUnschedulable",
    "schedulingBackoff", "ageMinutes", "staleSeconds", "evictedPodsNotRecreated",
    topologyConstraint=_CONSTRAINT,
    subGroups=[words("name", "minMember", "minSubGroup", "parent", topologyConstraint=_CONSTRAINT)],
)  # fmt: skip
POD: Final = words(
    "name", "podGroup", "subGroup", "gpu", "gpuFraction", "gpuMemory", "gpuGroup", "cpu", "memory",
    "bestEffort", "taskPriority", "nodeAffinity", "gated", "node", "labels",
    podAffinity=[_TERM],
    podAntiAffinity=[_TERM],
    state=frozenset({"Pending", "Running", "Bound", "Releasing", "Failed", "Succeeded"}),
)  # fmt: skip
CLUSTER: Final = words(
    nodes=[NODE],
    queues=[QUEUE],
    topologies=[words("name", "levels")],
    podGroups=[POD_GROUP],
    pods=[POD],
    needs=[frozenset(POD)],  # words that not every runner knows
)


class CompactCluster:
    """The objects of a case, made for one moment."""

    def __init__(self, given: Json, now: float, namespace: str = NAMESPACE) -> None:
        """Raises CaseFailure that names every word which is not understood."""
        refuse_unknown(given, CLUSTER, "given")
        self._given = given
        self._now = now
        self._namespace = namespace

    def objects(self) -> list[Json]:
        """Everything, in an order in which it can be created."""
        return [
            *self.nodes(),
            *self.queues(),
            *self.priority_classes(),
            *self.topologies(),
            *self.pod_groups(),
            *self.pods(),
        ]

    def nodes(self) -> list[Json]:
        """Nodes, all of them ready."""
        return [self.node(each) for each in self._given.get("nodes") or ()]

    def queues(self) -> list[Json]:
        """Queues; siblings are created a minute apart."""
        return [self._queue(each) for each in self._given.get("queues") or ()]

    def priority_classes(self) -> list[Json]:
        """A class for each priority that a group has."""
        values = {each["priority"] for each in self._given.get("podGroups") or () if "priority" in each}
        return [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"prio-{value}"},
                "value": value,
            }
            for value in sorted(values)
        ]

    def topologies(self) -> list[Json]:
        """Topologies."""
        return [
            {
                "apiVersion": "kai.scheduler/v1alpha1",
                "kind": "Topology",
                "metadata": {"name": each["name"]},
                "spec": {"levels": [{"nodeLabel": level} for level in each["levels"]]},
            }
            for each in self._given.get("topologies") or ()
        ]

    def pod_groups(self) -> list[Json]:
        """PodGroups; those with bound pods started a minute ago."""
        started = {each["podGroup"] for each in self._given["pods"] if each["state"] in _BOUND}
        return [self._pod_group(each, each["name"] in started) for each in self._given["podGroups"]]

    def pods(self) -> list[Json]:
        """Pods."""
        return [self.pod(each) for each in self._given["pods"]]

    @staticmethod
    def node(compact: Json) -> Json:
        """One node, ready."""
        refuse_unknown(compact, NODE, "node")
        name = compact["name"]
        amounts = {
            "cpu": str(compact.get("cpu", "20000")),
            "memory": str(compact.get("memory", "20G")),
            "pods": str(compact.get("pods", 110)),
        }
        if compact.get("gpus"):
            amounts["nvidia.com/gpu"] = str(compact["gpus"])
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(compact.get("labels") or {})},
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def _queue(self, compact: Json) -> Json:
        resources = {name: compact.get(name) or _UNLIMITED for name in ("gpu", "cpu", "memory")}
        created = self._now - 1000 * _MINUTE + compact.get("createdOrder", 0) * _MINUTE
        spec = {key: compact[key] for key in ("parentQueue", "priority", "displayName") if key in compact}
        return {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": compact["name"], "creationTimestamp": _time(created)},
            "spec": {**spec, "resources": resources},
        }

    def _pod_group(self, compact: Json, has_started: bool) -> Json:
        keys = ("queue", "preemptibility", "minMember", "topologyConstraint", "subGroups")
        extra = ("markUnschedulable", "schedulingBackoff", "minSubGroup")
        spec = {key: compact[key] for key in (*keys, *extra) if key in compact}
        if "priority" in compact:
            spec["priorityClassName"] = f"prio-{compact['priority']}"
        annotations = {}
        if has_started:
            annotations["kai.scheduler/last-start-timestamp"] = _time(self._now - _MINUTE)
        if "staleSeconds" in compact:
            since = self._now - compact["staleSeconds"]
            annotations["kai.scheduler/stale-podgroup-timestamp"] = _time(since)
        return {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": compact["name"],
                "namespace": self._namespace,
                "annotations": annotations,
                "creationTimestamp": _time(self._now - compact.get("ageMinutes", 0) * _MINUTE),
            },
            "spec": spec,
        }

    def pod(self, compact: Json) -> Json:
        """One pod, in the state that its compact form says."""
        refuse_unknown(compact, POD, "pod")
        metadata: Json = {
            "name": compact["name"],
            "namespace": self._namespace,
            "uid": compact["name"],
            "creationTimestamp": _time(self._now - _MINUTE),
            "labels": _pod_labels(compact),
            "annotations": _pod_annotations(compact),
        }
        if compact["state"] == "Releasing":
            metadata["deletionTimestamp"] = _time(self._now)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _pod_spec(compact),
            "status": {"phase": _phase(compact)},
        }


def _time(moment: float) -> str:
    return str(Time.of_timestamp(moment))


def _pod_labels(compact: Json) -> dict[str, str]:
    labels = dict(compact.get("labels") or {})
    if "subGroup" in compact:
        labels["kai.scheduler/subgroup-name"] = compact["subGroup"]
    if "taskPriority" in compact:
        labels["kai.scheduler/task-priority"] = str(compact["taskPriority"])
    if "gpuGroup" in compact:
        labels["runai-gpu-group"] = compact["gpuGroup"]
    return labels


def _pod_annotations(compact: Json) -> dict[str, str]:
    annotations = {"pod-group-name": compact["podGroup"]}
    if "gpuFraction" in compact:
        annotations["gpu-fraction"] = str(compact["gpuFraction"])
    if "gpuMemory" in compact:
        annotations["gpu-memory"] = str(compact["gpuMemory"])
    return annotations


def _pod_spec(compact: Json) -> Json:
    requests = {}
    if not compact.get("bestEffort"):
        requests = {"cpu": str(compact.get("cpu", "1")), "memory": str(compact.get("memory", "1G"))}
    if compact.get("gpu"):
        requests["nvidia.com/gpu"] = str(compact["gpu"])
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    spec: Json = {
        "schedulerName": SCHEDULER,
        "containers": [
            {
                "name": "main",
                "image": "example.com/main",
                "resources": {"requests": requests, "limits": limits},
            }
        ],
    }
    if compact.get("node"):
        spec["nodeName"] = compact["node"]
    if compact.get("gated"):
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    affinity = _affinity(compact)
    if affinity:
        spec["affinity"] = affinity
    return spec


def _affinity(compact: Json) -> Json:
    affinity: Json = {}
    if compact.get("nodeAffinity"):
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": compact["nodeAffinity"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for word in ("podAffinity", "podAntiAffinity"):
        if compact.get(word):
            required = [
                {
                    "topologyKey": each["topologyKey"],
                    "labelSelector": {"matchLabels": each["matchLabels"]},
                }
                for each in compact[word]
            ]
            affinity[word] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return affinity


def _phase(compact: Json) -> str:
    state: str = compact["state"]
    if state in ("Failed", "Succeeded", "Running"):
        return state
    return "Running" if state == "Releasing" and compact.get("node") else "Pending"
