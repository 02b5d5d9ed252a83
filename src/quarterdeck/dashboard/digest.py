"""What the page keeps of an object: a small dictionary for each. Pure.

Objects come as they are on the wire, from any version of their project: what is missing is left out, and
nothing here fails because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import Quantity
from quarterdeck.api.jsonobject import Json

_GPU: Final = "/gpu"
_POD_GROUP: Final = "pod-group-name"
_FRACTION: Final = "gpu-fraction"
_PART_OF: Final = "app.kubernetes.io/part-of"
_JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
_POD_GANG: Final = "grove.io/podgang"
_ENDED: Final = ("Succeeded", "Failed")


def object_key(obj: Json) -> str:
    """``namespace/name``, or the name of what has no namespace."""
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def node(obj: Json) -> Json:
    """A node: how much it has, and whether it takes pods."""
    status, spec = _of(obj, "status"), _of(obj, "spec")
    has = _of(status, "allocatable") or _of(status, "capacity")
    return {
        "name": obj["metadata"]["name"],
        "ready": _condition(status, "Ready").get("status") == "True",
        "cordoned": bool(spec.get("unschedulable")),
        "gpus": int(_gpus(has)),
        "cpu": _number(has.get("cpu")),
        "memory": _number(has.get("memory")),
        "labels": _of(_of(obj, "metadata"), "labels"),
    }


def pod(obj: Json) -> Json:
    """A pod: where it is, whose it is, what it takes, and why it waits."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    annotations, labels = _of(metadata, "annotations"), _of(metadata, "labels")
    phase = str(status.get("phase") or "Pending")
    requests = [_requests(each) for each in spec.get("containers") or ()]
    gpus = sum(_gpus(each) for each in requests)
    if not gpus and _FRACTION in annotations:
        gpus = _number(annotations[_FRACTION])
    scheduled = _condition(status, "PodScheduled")
    waits = phase == "Pending" and not spec.get("nodeName")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "node": spec.get("nodeName", ""),
        "phase": "Terminating" if metadata.get("deletionTimestamp") else phase,
        "ended": phase in _ENDED,
        "ready": _condition(status, "Ready").get("status") == "True",
        "waits": waits,
        "why": str(scheduled.get("message") or scheduled.get("reason") or "") if waits else "",
        "gpus": gpus,
        "cpu": sum(_number(each.get("cpu")) for each in requests),
        "memory": sum(_number(each.get("memory")) for each in requests),
        "gang": _gang(metadata, annotations, labels),
        "grouped": _POD_GROUP in annotations,
        "jobset": labels.get(_JOB_SET, ""),
        "since": metadata.get("creationTimestamp", ""),
        "containers": [each.get("name", "") for each in spec.get("containers") or ()],
    }


def _gang(metadata: Json, annotations: Json, labels: Json) -> str:
    """The gang of a pod; a pod that is in none is counted to its controller, or is alone."""
    name = annotations.get(_POD_GROUP) or labels.get(_POD_GANG) or labels.get(_JOB_SET)
    if not name:
        owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
        name = owners[0].get("name") if owners else metadata["name"]
    return f"{metadata.get('namespace', '')}/{name}"


def pod_group(obj: Json) -> Json:
    """A gang of the gang scheduler, with the scheduler's own words."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    subgroups = [each for each in spec.get("subGroups") or () if each.get("minMember")]
    owner: Json = next(iter(metadata.get("ownerReferences") or ()), {})
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "queue": spec.get("queue", ""),
        "minimum": sum(each["minMember"] for each in subgroups) or spec.get("minMember") or 1,
        "priority": spec.get("priorityClassName", ""),
        "owner": f"{owner.get('kind', '')} {owner.get('name', '')}".strip(),
        "since": metadata.get("creationTimestamp", ""),
        "why": _refusals(status),
    }


def _refusals(status: Json) -> list[str]:
    found: list[str] = []
    for condition in status.get("schedulingConditions") or ():
        if condition.get("status") == "False":
            continue
        told = [each.get("message", "") for each in condition.get("reasons") or ()]
        found += [text for text in told or [condition.get("message", "")] if text and text not in found]
    return found


def queue(obj: Json) -> Json:
    """A queue and its shares; GPUs in devices, CPU in cores, memory in bytes; -1 is no bound."""
    spec, status = _of(obj, "spec"), _of(obj, "status")
    shares, has, wants = _of(spec, "resources"), _of(status, "allocated"), _of(status, "requested")
    name = obj["metadata"]["name"]
    return {
        "name": name,
        "title": spec.get("displayName") or name,
        "parent": spec.get("parentQueue", ""),
        "priority": spec.get("priority", 100),
        "gpu": _share(_of(shares, "gpu"), 1.0, _gpus(has), _gpus(wants)),
        "cpu": _share(_of(shares, "cpu"), 1e-3, _number(has.get("cpu")), _number(wants.get("cpu"))),
        "memory": _share(
            _of(shares, "memory"), 1e6, _number(has.get("memory")), _number(wants.get("memory"))
        ),
    }


def _share(spec: Json, unit: float, allocated: float, requested: float) -> Json:
    def amount(name: str) -> float:
        value = float(spec.get(name) or 0)
        return value if value < 0 else value * unit

    return {
        "quota": amount("quota"),
        "limit": amount("limit"),
        "weight": float(spec.get("overQuotaWeight") or 0),
        "allocated": allocated,
        "requested": requested,
    }


def topology(obj: Json) -> Json:
    """The node labels of a topology, the widest first."""
    return {"levels": [each.get("nodeLabel", "") for each in _of(obj, "spec").get("levels") or ()]}


def train_job(obj: Json) -> Json:
    """A training: its state and its own report."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    report = _of(status, "trainerStatus")
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    state = next(
        (each for each in ("Failed", "Complete", "Suspended") if _is_true(conditions.get(each))), "Running"
    )
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "runtime": _of(spec, "runtimeRef").get("name", ""),
        "state": state,
        "message": _of(conditions, state).get("message", ""),
        "nodes": _of(spec, "trainer").get("numNodes"),
        "progress": report.get("progressPercentage"),
        "remaining": report.get("estimatedRemainingSeconds"),
        "metrics": [[each.get("name", ""), each.get("value", "")] for each in report.get("metrics") or ()],
        "jobs": list(status.get("jobsStatus") or ()),
        "since": metadata.get("creationTimestamp", ""),
    }


def clique_set(obj: Json) -> Json:
    """An inference service: its roles, their order, its update."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    template, update = _of(spec, "template"), _of(status, "updateProgress")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "replicas": spec.get("replicas", 0),
        "available": status.get("availableReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
        "order": template.get("cliqueStartupType", ""),
        "roles": [
            {"name": each.get("name", ""), "after": list(_of(each, "spec").get("startsAfter") or ())}
            for each in template.get("cliques") or ()
        ],
        "updating": _update(update),
        "errors": [each.get("description", "") for each in status.get("lastErrors") or ()],
        "since": metadata.get("creationTimestamp", ""),
    }


def _update(update: Json) -> Json | None:
    if not update or update.get("updateEndedAt"):
        return None
    return {
        "done": update.get("updatedPodCliquesCount", 0) + update.get("updatedPodCliqueScalingGroupsCount", 0),
        "of": update.get("totalPodCliquesCount", 0) + update.get("totalPodCliqueScalingGroupsCount", 0),
        "since": update.get("updateStartedAt", ""),
    }


def clique(obj: Json) -> Json:
    """Pods of one role of an inference service."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "set": _of(metadata, "labels").get(_PART_OF, ""),
        "role": spec.get("roleName", ""),
        "after": list(spec.get("startsAfter") or ()),
        "replicas": spec.get("replicas", 0),
        "ready": status.get("readyReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
        "scheduled": status.get("scheduledReplicas", 0),
        "gated": status.get("scheduleGatedReplicas", 0),
    }


def scaling_group(obj: Json) -> Json:
    """Roles of an inference service that are replicated together."""
    metadata, spec, status = _of(obj, "metadata"), _of(obj, "spec"), _of(obj, "status")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "set": _of(metadata, "labels").get(_PART_OF, ""),
        "replicas": spec.get("replicas", 0),
        "available": status.get("availableReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
    }


def pool(obj: Json) -> Json:
    """A pool of addresses."""
    metadata, spec = _of(obj, "metadata"), _of(obj, "spec")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "cidr": spec.get("cidr", ""),
        "strategy": spec.get("strategy", ""),
    }


def subnet(obj: Json) -> Json:
    """A block of a pool."""
    metadata, spec = _of(obj, "metadata"), _of(obj, "spec")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "pool": spec.get("poolRef", ""),
        "cidr": spec.get("cidr", ""),
        "holder": spec.get("clusterID", ""),
        "failed": _of(obj, "status").get("phase") == "Failed",
    }


def node_group(obj: Json) -> Json:
    """A group of nodes, counted."""
    status, spec = _of(obj, "status"), _of(obj, "spec")
    counts = {name: status.get(name, 0) for name in ("ready", "nodes", "desired", "min", "max", "upToDate")}
    summary = _of(status, "conditionSummary")
    return {
        "name": obj["metadata"]["name"],
        "type": spec.get("nodeType", ""),
        "error": status.get("error") or summary.get("statusMessage") or "",
        **counts,
    }


def event(obj: Json) -> Json:
    """An event of either API."""
    series = _of(obj, "series")
    about = _of(obj, "involvedObject") or _of(obj, "regarding")
    time = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or _of(obj, "metadata").get("creationTimestamp", "")
    )
    return {
        "time": time,
        "type": obj.get("type", "Normal"),
        "reason": obj.get("reason", ""),
        "kind": about.get("kind", ""),
        "about": f"{about['namespace']}/{about.get('name', '')}"
        if about.get("namespace")
        else about.get("name", ""),
        "message": obj.get("message") or obj.get("note") or "",
        "count": series.get("count") or obj.get("count") or 1,
        "by": _of(obj, "source").get("component") or obj.get("reportingComponent", ""),
    }


def _of(obj: Mapping[Any, Any], name: str) -> Json:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def _condition(status: Json, kind: str) -> Json:
    return next((each for each in status.get("conditions") or () if each.get("type") == kind), {})


def _is_true(condition: Json | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _requests(container: Json) -> Json:
    resources = _of(container, "resources")
    return {**_of(resources, "limits"), **_of(resources, "requests")}


def _gpus(amounts: Json) -> float:
    return sum(_number(value) for name, value in amounts.items() if name.endswith(_GPU))


def _number(value: Any) -> float:
    if value is None:
        return 0.0
    try:
        return Quantity(value).nano / 1e9
    except (ValueError, TypeError):
        return 0.0
