"""What the page keeps of an object: a small dictionary for each. Pure.

Objects come as they are on the wire, from any version of their project: what is missing is left out, and
nothing here fails because of it.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.health.field import (
    ENDED,
    condition,
    gang_of,
    gpus,
    is_true,
    items,
    number,
    of,
    pod_gpus,
    pod_requests,
)
from quarterdeck.health.pod import examine_pod
from quarterdeck.health.situation import SITUATIONS

_POD_GROUP: Final = "pod-group-name"
_PART_OF: Final = "app.kubernetes.io/part-of"
_JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"


def node(obj: Json) -> Json:
    """A node: how much it has, and whether it takes pods."""
    status, spec = of(obj, "status"), of(obj, "spec")
    has = of(status, "allocatable") or of(status, "capacity")
    return {
        "name": obj["metadata"]["name"],
        "ready": condition(obj, "Ready").get("status") == "True",
        "cordoned": bool(spec.get("unschedulable")),
        "gpus": int(gpus(has)),
        "cpu": number(has.get("cpu")),
        "memory": number(has.get("memory")),
        "labels": of(of(obj, "metadata"), "labels"),
        "since": of(obj, "metadata").get("creationTimestamp", ""),
    }


def pod(obj: Json) -> Json:
    """A pod: where it is, whose it is, what it takes, and why it waits."""
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    annotations, labels = of(metadata, "annotations"), of(metadata, "labels")
    phase = str(status.get("phase") or "Pending")
    requests = pod_requests(obj)
    scheduled = condition(obj, "PodScheduled")
    waits = phase == "Pending" and not spec.get("nodeName")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "node": spec.get("nodeName", ""),
        "phase": "Terminating" if metadata.get("deletionTimestamp") else phase,
        "ended": phase in ENDED,
        "failing": _is_failing(obj),
        "unready": phase == "Running" and condition(obj, "Ready").get("status") == "False",
        "waits": waits,
        "why": str(scheduled.get("message") or scheduled.get("reason") or "") if waits else "",
        "gpus": pod_gpus(obj),
        "cpu": requests.get("cpu", 0.0),
        "memory": requests.get("memory", 0.0),
        "restarts": sum(int(each.get("restartCount") or 0) for each in items(status, "containerStatuses")),
        "gang": gang_of(obj),
        "grouped": _POD_GROUP in annotations,
        "jobset": labels.get(_JOB_SET, ""),
        "since": metadata.get("creationTimestamp", ""),
        "containers": [each.get("name", "") for each in items(spec, "containers")],
    }


def _is_failing(obj: Json) -> bool:
    """Whether something is wrong with it that does not mend itself in a moment."""
    return any(
        SITUATIONS[each.situation].severity == "critical" and not each.after for each in examine_pod(obj)
    )


def pod_group(obj: Json) -> Json:
    """A gang of the gang scheduler, with the scheduler's own words."""
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
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
    for pool in items(status, "schedulingConditions"):
        if pool.get("status") == "False":
            continue
        told = [each.get("message", "") for each in items(pool, "reasons")]
        found += [text for text in told or [pool.get("message", "")] if text and text not in found]
    return found


def queue(obj: Json) -> Json:
    """A queue and its shares; GPUs in devices, CPU in cores, memory in bytes; -1 is no bound."""
    spec, status = of(obj, "spec"), of(obj, "status")
    shares, has, wants = of(spec, "resources"), of(status, "allocated"), of(status, "requested")
    name = obj["metadata"]["name"]
    return {
        "name": name,
        "title": spec.get("displayName") or name,
        "parent": spec.get("parentQueue", ""),
        "priority": spec.get("priority", 100),
        "gpu": _share(of(shares, "gpu"), 1.0, gpus(has), gpus(wants)),
        "cpu": _share(of(shares, "cpu"), 1e-3, number(has.get("cpu")), number(wants.get("cpu"))),
        "memory": _share(of(shares, "memory"), 1e6, number(has.get("memory")), number(wants.get("memory"))),
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
    return {"levels": [each.get("nodeLabel", "") for each in of(obj, "spec").get("levels") or ()]}


def train_job(obj: Json) -> Json:
    """A training: its state and its own report."""
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    report = of(status, "trainerStatus")
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    state = next((each for each in ("Failed", "Complete", "Suspended") if is_true(obj, each)), "Running")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "runtime": of(spec, "runtimeRef").get("name", ""),
        "state": state,
        "message": of(conditions, state).get("message", ""),
        "nodes": of(spec, "trainer").get("numNodes"),
        "progress": report.get("progressPercentage"),
        "remaining": report.get("estimatedRemainingSeconds"),
        "metrics": [[each.get("name", ""), each.get("value", "")] for each in report.get("metrics") or ()],
        "jobs": list(status.get("jobsStatus") or ()),
        "since": metadata.get("creationTimestamp", ""),
    }


def clique_set(obj: Json) -> Json:
    """An inference service: its roles, their order, its update."""
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    template, update = of(spec, "template"), of(status, "updateProgress")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "replicas": spec.get("replicas", 0),
        "available": status.get("availableReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
        "order": template.get("cliqueStartupType", ""),
        "roles": [
            {"name": each.get("name", ""), "after": list(of(each, "spec").get("startsAfter") or ())}
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
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "set": of(metadata, "labels").get(_PART_OF, ""),
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
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "set": of(metadata, "labels").get(_PART_OF, ""),
        "replicas": spec.get("replicas", 0),
        "available": status.get("availableReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
    }


def pool(obj: Json) -> Json:
    """A pool of addresses."""
    metadata, spec = of(obj, "metadata"), of(obj, "spec")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "cidr": spec.get("cidr", ""),
        "strategy": spec.get("strategy", ""),
    }


def subnet(obj: Json) -> Json:
    """A block of a pool."""
    metadata, spec = of(obj, "metadata"), of(obj, "spec")
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "pool": spec.get("poolRef", ""),
        "cidr": spec.get("cidr", ""),
        "holder": spec.get("clusterID", ""),
        "failed": of(obj, "status").get("phase") == "Failed",
    }


def node_group(obj: Json) -> Json:
    """A group of nodes, counted."""
    status, spec = of(obj, "status"), of(obj, "spec")
    counts = {name: status.get(name, 0) for name in ("ready", "nodes", "desired", "min", "max", "upToDate")}
    summary = of(status, "conditionSummary")
    return {
        "name": obj["metadata"]["name"],
        "type": spec.get("nodeType", ""),
        "error": status.get("error") or summary.get("statusMessage") or "",
        **counts,
    }


def event(obj: Json) -> Json:
    """An event of either API."""
    series = of(obj, "series")
    about = of(obj, "involvedObject") or of(obj, "regarding")
    time = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or of(obj, "metadata").get("creationTimestamp", "")
    )
    return {
        "time": time,
        "type": obj.get("type", "Normal"),
        "reason": obj.get("reason", ""),
        "kind": about.get("kind", ""),
        "version": about.get("apiVersion", ""),
        "about": f"{about['namespace']}/{about.get('name', '')}"
        if about.get("namespace")
        else about.get("name", ""),
        "message": obj.get("message") or obj.get("note") or "",
        "count": series.get("count") or obj.get("count") or 1,
        "by": of(obj, "source").get("component") or obj.get("reportingComponent", ""),
    }
