"""Cases in the language of the grove case file: objects, steps and surroundings in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

GROUP = "PodCliqueScalingGroup"
SET = "PodCliqueSet"
OLD, NEW = "busybox:stable", "busybox:1.36"
KAI: Json = {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "enabled"}}
QUIET: Json = {"config": {"schedulerName": "default-scheduler"}, "scheduler": "none"}
"""Nobody schedules."""
ALL = ("pc-a", "pc-b", "pc-c")


def clique(name: str, replicas: int = 1, least: int | None = None, *, queue: str = "", **spec: Any) -> Json:
    containers = [{"name": "main", "image": OLD}]
    body = {"roleName": f"role-{name}", "replicas": replicas, "podSpec": {"containers": containers}, **spec}
    if least is not None:
        body["minAvailable"] = least
    made: Json = {"name": name, "spec": body}
    if queue:
        made["labels"] = {"kai.scheduler/queue": queue}
    return made


def pcs(
    *cliques: Json,
    name: str = "w",
    groups: Sequence[Json] = (),
    replicas: int = 1,
    strategy: str = "",
    labels: Mapping[str, str] | None = None,
    **template: Any,
) -> Json:
    spec: Json = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    if groups:
        spec["template"]["podCliqueScalingGroups"] = list(groups)
    if strategy:
        spec["updateStrategy"] = {"type": strategy}
    metadata = {"name": name, "namespace": "default", "labels": dict(labels or {})}
    return {"apiVersion": "grove.io/v1alpha1", "kind": SET, "metadata": metadata, "spec": spec}


def workload(
    mins: tuple[int, int, int] = (2, 1, 3),
    least: int = 2,
    count: int = 2,
    *,
    queue: str = "",
    after: Mapping[str, list[str]] | None = None,
    **more: Any,
) -> Json:
    """The reference workloads: a standalone clique of two, and ``count`` replicas of a group of four pods."""
    parents = after or {}
    cliques = [
        clique(
            name,
            replicas,
            fewest,
            queue=queue,
            **({"startsAfter": parents[name]} if name in parents else {}),
        )
        for name, replicas, fewest in zip(ALL, (2, 1, 3), mins, strict=True)
    ]
    group = {"name": "sg-x", "cliqueNames": ["pc-b", "pc-c"], "replicas": count, "minAvailable": least}
    return pcs(*cliques, groups=[group], **more)


def full(**more: Any) -> Json:
    """Ten pods that run together or not at all."""
    return workload(queue="test", **more)


def partial(**more: Any) -> Json:
    """Ten pods of which three are enough."""
    return workload((1, 1, 1), 1, queue="test", **more)


def kai(nodes: int, **more: Any) -> Json:
    """A cluster with nodes for one pod each, a scheduler and kubelets."""
    capacity = {"total": nodes, "podsPerNode": 1}
    return {"config": KAI, "nodes": capacity, "kubelet": "ready", "scheduler": "kai", **more}


def spy(**hooks: Any) -> Json:
    """A backend that writes down how it is called."""
    return {"config": {"schedulerName": "spy"}, "testBackends": [{"name": "spy", **hooks}]}


SETTLE: Json = {"settle": True}
MARK: Json = {"mark": "podUIDs"}
TRACE: Json = {"traceStart": True}


def life(name: str, given: Json, *steps: Json) -> Json:
    return {
        "id": name,
        "kind": "lifecycle",
        "given": given,
        "when": {"steps": list(steps)},
        "then": {"allStepsPass": True},
    }


def apply(document: Json) -> Json:
    return {"apply": document}


def expect(**checks: Any) -> Json:
    return {"expect": checks}


def scale(kind: str, name: str, replicas: int) -> Json:
    return {"scale": {"kind": kind, "name": name, "replicas": replicas}}


def patch(change: Json, kind: str = SET, name: str = "w") -> Json:
    return {"patch": {"kind": kind, "name": name, "patch": change}}


def nodes(count: int) -> Json:
    return {"schedulableNodes": count}


def advance(time: str) -> Json:
    return {"advance": time}


def lose(pclq: str, count: int = 1) -> Json:
    """Pods whose nodes take no pods any more."""
    return {"cordonNodesAndDeletePods": {"pclq": pclq, "count": count}}


def image(*cliques: str, image: str = NEW) -> Json:
    return {"setImage": {"pcs": "w", "cliques": list(cliques), "image": image}}


def delete(kind: str, name: str) -> Json:
    return {"delete": {"kind": kind, "name": name}}


def of_clique(pclq: str) -> str:
    return f"grove.io/podclique={pclq}"


def of_set(name: str) -> str:
    return f"app.kubernetes.io/part-of={name}"


def condition(about: str, type: str, status: str, reason: str = "", message: str = "") -> Json:
    found = {"object": about, "type": type, "status": status}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found
