"""Scheduling cases in their compact form, read straight into snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from quarterdeck.api import Key, Quantity, from_dict
from quarterdeck.api.k8s import Affinity
from quarterdeck.scheduler import Action, CycleResult, PodState, Settings, Snapshot
from quarterdeck.scheduler.decision import Evict
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import (
    GpuShare,
    NodeInfo,
    PodConstraints,
    PodGroupInfo,
    PodInfo,
    PriorityClassInfo,
    QueueInfo,
    QueueResource,
    SubGroupInfo,
    TopologyConstraint,
    TopologyInfo,
)

Json = dict[str, Any]
Outcome = tuple[str, str]
"""State and node."""

CASES: Final = Path(__file__).parents[2] / "cases"
NAMESPACE: Final = "default"
NOW: Final = 1_000_000.0
_MINUTE: Final = 60.0
_STARTED: Final = frozenset({"Running", "Bound", "Releasing"})
_ALIKE: Final = (
    *("podGroup", "subGroup", "gpu", "gpuFraction", "gpuMemory", "cpu", "memory", "bestEffort"),
    *("taskPriority", "nodeAffinity", "labels", "podAffinity", "podAntiAffinity", "state", "node"),
)
"""What pods that are interchangeable have in common."""
_POD_WORDS: Final = frozenset({"name", "gpuGroup", "gated", *_ALIKE})


def read_cases(file: str) -> list[Json]:
    """All cases of a file."""
    cases: list[Json] = json.loads((CASES / file).read_text())["cases"]
    return cases


def settings_of(when: Json) -> Settings:
    return Settings(
        actions=tuple(Action(each) for each in when["actions"]),
        max_consolidation_preemptees=when["maxConsolidationPreemptees"],
        staleness_grace_period=when["stalenessGracePeriodSeconds"],
        use_scheduling_signatures=False,
    )


def snapshot_of(given: Json) -> Snapshot:
    """The cluster of a case."""
    started = {each["podGroup"] for each in given["pods"] if each["state"] in _STARTED}
    priorities = {each["priority"] for each in given["podGroups"] if "priority" in each}
    return Snapshot(
        now=NOW,
        nodes=tuple(map(_node, given["nodes"])),
        queues=tuple(map(_queue, given["queues"])),
        pod_groups=tuple(_group(each, each["name"] in started) for each in given["podGroups"]),
        pods=tuple(map(_pod, given["pods"])),
        priority_classes=tuple(
            PriorityClassInfo(name=f"prio-{value}", value=value) for value in sorted(priorities)
        ),
        topologies=tuple(
            TopologyInfo(name=each["name"], levels=tuple(each["levels"]))
            for each in given.get("topologies") or ()
        ),
    )


def _node(compact: Json) -> NodeInfo:
    labels = {"kubernetes.io/hostname": compact["name"], **(compact.get("labels") or {})}
    memory = int(labels.get("nvidia.com/gpu.memory", 0))
    return NodeInfo(
        name=compact["name"],
        allocatable=Resources(
            Quantity(str(compact.get("cpu", "20000"))).milli_value,
            Quantity(str(compact.get("memory", "20G"))).value,
            compact.get("gpus", 0),
        ),
        pods=compact.get("pods", 110),
        labels=labels,
        gpu_memory=memory - memory % 100,
    )


def _queue(compact: Json) -> QueueInfo:
    def share(name: str, unit: float = 1) -> QueueResource:
        given = compact.get(name) or {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        bounds = [given.get(key, 0) for key in ("quota", "limit")]
        quota, limit = (each if each == -1 else each * unit for each in bounds)
        return QueueResource(quota, limit, given.get("overQuotaWeight", 0))

    return QueueInfo(
        name=compact["name"],
        parent=compact.get("parentQueue", ""),
        priority=compact.get("priority", 100),
        created=compact.get("createdOrder", 0) * _MINUTE,
        cpu=share("cpu"),
        memory=share("memory", 1e6),
        gpu=share("gpu"),
    )


def _group(compact: Json, has_started: bool) -> PodGroupInfo:
    stale = compact.get("staleSeconds")
    return PodGroupInfo(
        namespace=NAMESPACE,
        name=compact["name"],
        created=NOW - compact.get("ageMinutes", 0) * _MINUTE,
        queue=compact["queue"],
        min_member=compact.get("minMember", 0),
        priority_class_name=f"prio-{compact['priority']}" if "priority" in compact else "",
        preemptibility=compact.get("preemptibility", ""),
        topology_constraint=_constraint(compact) or TopologyConstraint(),
        subgroups=tuple(
            SubGroupInfo(
                name=each["name"],
                min_member=each.get("minMember", 0),
                parent=each.get("parent"),
                topology_constraint=_constraint(each),
            )
            for each in compact.get("subGroups") or ()
        ),
        last_start=NOW - _MINUTE if has_started else None,
        stale_since=NOW - stale if stale is not None else None,
    )


def _constraint(compact: Json) -> TopologyConstraint | None:
    given = compact.get("topologyConstraint")
    if given is None:
        return None
    return TopologyConstraint(
        topology=given.get("topology", ""),
        required_level=given.get("requiredTopologyLevel", ""),
        preferred_level=given.get("preferredTopologyLevel", ""),
    )


def _pod(compact: Json) -> PodInfo:
    unknown = set(compact) - _POD_WORDS
    assert not unknown, f"words of a pod that are not known here: {unknown}"
    state, node = compact["state"], compact.get("node", "")
    is_idle = compact.get("bestEffort", False)
    labels = dict(compact.get("labels") or {})
    if "taskPriority" in compact:
        labels["kai.scheduler/task-priority"] = str(compact["taskPriority"])
    share = GpuShare(float(compact.get("gpuFraction", 0)), int(compact.get("gpuMemory", 0)))
    return PodInfo(
        namespace=NAMESPACE,
        name=compact["name"],
        uid=compact["name"],
        labels=labels,
        phase=_phase(state, node),
        node=node,
        is_deleted=state == "Releasing",
        is_gated=compact.get("gated", False),
        pod_group=compact["podGroup"],
        subgroup=compact.get("subGroup", ""),
        request=Resources(
            0 if is_idle else Quantity(str(compact.get("cpu", "1"))).milli_value,
            0 if is_idle else Quantity(str(compact.get("memory", "1G"))).value,
            compact.get("gpu", 0),
        ),
        gpu_share=share if share.portion or share.memory else None,
        gpu_groups=(compact["gpuGroup"],) if "gpuGroup" in compact else (),
        constraints=PodConstraints(affinity=_affinity(compact)),
    )


def _phase(state: str, node: str) -> Any:
    if state in ("Failed", "Succeeded", "Running"):
        return state
    return "Running" if state == "Releasing" and node else "Pending"


def _affinity(compact: Json) -> Affinity | None:
    found: Json = {}
    if compact.get("nodeAffinity"):
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": compact["nodeAffinity"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for word in ("podAffinity", "podAntiAffinity"):
        if compact.get(word):
            found[word] = {"requiredDuringSchedulingIgnoredDuringExecution": list(map(_term, compact[word]))}
    return from_dict(found, Affinity) if found else None


def _term(compact: Json) -> Json:
    return {
        "topologyKey": compact["topologyKey"],
        "labelSelector": {"matchLabels": compact["matchLabels"]},
    }


def outcomes(snapshot: Snapshot, result: CycleResult) -> dict[str, Outcome]:
    """What became of the pods, in the words of cases."""
    evicted = {each.pod for each in result.decisions if isinstance(each, Evict)}
    found = {}
    for pod in snapshot.pods:
        seen = result.pods.get(pod.key)
        state = seen.state if seen is not None else PodState.UNKNOWN
        if pod.key in evicted and state is not PodState.PIPELINED:
            found[pod.name] = ("Releasing", pod.node)
        else:
            found[pod.name] = (_WORDS.get(state, state.value), seen.node if seen is not None else "")
    return found


_WORDS: Final = {
    PodState.ALLOCATED: "Bound",
    PodState.BINDING: "Bound",
    PodState.RUNNING: "Bound",
    PodState.GATED: "Pending",
}


def standing(snapshot: Snapshot) -> dict[str, Outcome]:
    """What the cluster shows of its pods between cycles."""
    return {
        pod.name: ("Bound" if pod.node and not pod.is_deleted else _idle(pod), pod.node)
        for pod in snapshot.pods
    }


def _idle(pod: PodInfo) -> str:
    return "Releasing" if pod.is_deleted else "Pending"


def differences(case: Json, seen: Mapping[str, Outcome]) -> list[str]:
    """Where outcomes are not as a case wants them; those of pods that are alike may be swapped."""
    wanted = case["then"]["pods"]
    problems = []
    for names in _alike(each for each in case["given"]["pods"] if each["name"] in wanted):
        left = [seen[name] for name in names]
        for name in sorted(names, key=lambda name: "node" not in wanted[name]):
            match = next((each for each in left if _is_as(wanted[name], each)), None)
            if match is None:
                problems.append(f"{name}: expected {wanted[name]}; found {[seen[name] for name in names]}")
                break
            left.remove(match)
    return problems


def _alike(pods: Iterable[Json]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for each in pods:
        groups.setdefault(repr([each.get(key) for key in _ALIKE]), []).append(each["name"])
    return list(groups.values())


def _is_as(wanted: Json, seen: Outcome) -> bool:
    return bool(seen[0] == wanted["state"] and wanted.get("node", seen[1]) == seen[1])


def key_of(name: str) -> Key:
    """The key of a pod or group of a case."""
    return Key(NAMESPACE, name)
