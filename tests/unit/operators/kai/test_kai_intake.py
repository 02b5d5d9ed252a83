"""Our own kinds as the scheduler sees them, and what volumes demand of a node."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Resource
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.intake import (
    bind_request_info,
    pod_group_info,
    priority_class_info,
    queue_info,
    topology_info,
)
from quarterdeck.operators.kai.logic.volume import claims_of, volume_demands
from quarterdeck.operators.kai.types import BindRequest, PodGroup, Queue, Topology
from quarterdeck.scheduler.snapshot import QueueResource, SubGroupInfo, TopologyConstraint

Json = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
NOON = "2026-01-01T12:00:00Z"


def made(kind: type[Resource], spec: Json, **more: Any) -> Any:
    metadata = {
        "name": "x",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": CREATED,
        **more.pop("metadata", {}),
    }
    return kind.from_dict({"metadata": metadata, "spec": spec, **more})


def test_a_queue_counts_memory_in_bytes() -> None:
    share = {"quota": 2, "limit": 3, "overQuotaWeight": 1}
    spec = {"displayName": "X", "parentQueue": "p", "priority": 7}
    info = queue_info(made(Queue, {**spec, "resources": {"gpu": share, "cpu": share, "memory": share}}))
    assert (info.name, info.display_name, info.parent, info.priority) == ("x", "X", "p", 7)
    assert info.gpu == info.cpu == QueueResource(2, 3, 1)
    assert info.memory == QueueResource(2_000_000, 3_000_000, 1)
    assert info.created == 1767225600.0


def test_unlimited_has_no_unit() -> None:
    spec = {"resources": {"memory": {"quota": -1, "limit": -1}}}
    assert queue_info(made(Queue, spec)).memory == QueueResource(-1, -1, 0)


@pytest.mark.parametrize("spec", [{}, {"resources": {}}, {"resources": {"gpu": {"quota": 1}}}])
def test_a_limit_that_is_not_set_is_zero(spec: Json) -> None:
    info = queue_info(made(Queue, spec))
    assert info.priority == 100
    assert [info.gpu.limit, info.cpu.limit, info.memory.limit] == [0, 0, 0]


def test_runtimes_of_a_queue() -> None:
    info = queue_info(made(Queue, {"preemptMinRuntime": "1m30s", "reclaimMinRuntime": "0s"}))
    assert (info.preempt_min_runtime, info.reclaim_min_runtime) == (90.0, 0.0)
    assert queue_info(made(Queue, {})).preempt_min_runtime is None
    # one bad queue must not stop the scheduler
    assert queue_info(made(Queue, {"preemptMinRuntime": "soon"})).preempt_min_runtime is None


def test_a_group() -> None:
    info = pod_group_info(
        made(
            PodGroup,
            {
                "minMember": 3,
                "queue": "q",
                "priorityClassName": "train",
                "preemptibility": "non-preemptible",
                "markUnschedulable": False,
                "schedulingBackoff": 1,
                "minSubGroup": 1,
                "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
                "subGroups": [
                    {"name": "p", "minSubGroup": 1, "topologyConstraint": {"preferredTopologyLevel": "host"}},
                    {"name": "c", "minMember": 2, "parent": "p"},
                ],
            },
            metadata={"annotations": {names.LAST_START_ANNOTATION: NOON, names.STALE_ANNOTATION: NOON}},
            status={"schedulingConditions": [{"type": "T", "nodePool": "p", "status": "True"}]},
        )
    )
    assert str(info.key) == "ns/x"
    assert (info.min_member, info.queue, info.priority_class_name) == (3, "q", "train")
    assert (info.preemptibility, info.mark_unschedulable, info.scheduling_backoff) == (
        "non-preemptible",
        False,
        1,
    )
    assert info.topology_constraint == TopologyConstraint(topology="t", required_level="rack")
    assert info.min_subgroup == 1
    assert info.subgroups == (
        SubGroupInfo(
            name="p", topology_constraint=TopologyConstraint(preferred_level="host"), min_subgroup=1
        ),
        SubGroupInfo(name="c", min_member=2, parent="p"),
    )
    assert info.last_start == info.stale_since == info.created + 12 * 3600
    assert [(each.type, each.node_pool, each.status) for each in info.scheduling_conditions] == [
        ("T", "p", "True")
    ]


def test_a_group_that_says_nothing() -> None:
    info = pod_group_info(made(PodGroup, {}))
    assert (info.min_member, info.preemptibility, info.mark_unschedulable) == (0, "", True)
    assert (info.scheduling_backoff, info.subgroups, info.min_subgroup) == (-1, (), None)
    assert (info.last_start, info.stale_since) == (None, None)


def test_annotations_that_are_no_times_count_as_none() -> None:
    annotations = {names.LAST_START_ANNOTATION: "yesterday", names.STALE_ANNOTATION: ""}
    info = pod_group_info(made(PodGroup, {}, metadata={"annotations": annotations}))
    assert (info.last_start, info.stale_since) == (None, None)


def test_a_bind_request() -> None:
    info = bind_request_info(
        made(
            BindRequest,
            {"podName": "p", "selectedNode": "n", "selectedGPUGroups": ["g"], "backoffLimit": 3},
            status={"phase": "Failed", "failedAttempts": 2},
        )
    )
    assert (info.pod, info.node, info.gpu_groups) == ("p", "n", ("g",))
    assert (info.phase, info.failed_attempts, info.backoff_limit) == ("Failed", 2, 3)
    assert bind_request_info(made(BindRequest, {})).backoff_limit is None


def test_a_topology_and_a_priority_class() -> None:
    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
    assert topology_info(made(Topology, {"levels": levels})).levels == ("zone", "rack")
    priority = PriorityClass.from_dict({"metadata": {"name": "x"}, "value": 5, "globalDefault": True})
    assert priority_class_info(priority).value == 5
    assert priority_class_info(priority).is_global_default


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
CLAIMS: dict[str, Json] = {
    "bound": {"metadata": {}, "spec": {"volumeName": "local"}},
    "anywhere": {"metadata": {}, "spec": {"volumeName": "network"}},
    "lost": {"metadata": {}, "spec": {"volumeName": "gone"}},
    "waiting": {"metadata": {}, "spec": {"storageClassName": "later"}},
    "immediate": {"metadata": {}, "spec": {"storageClassName": "now"}},
    "classless": {"metadata": {}, "spec": {}},
    "leaving": {"metadata": {"deletionTimestamp": NOON}, "spec": {"volumeName": "local"}},
}
VOLUMES: dict[str, Json] = {"local": {"spec": {"nodeAffinity": {"required": ZONE}}}, "network": {"spec": {}}}
CLASSES: dict[str, Json] = {
    "later": {"volumeBindingMode": "WaitForFirstConsumer"},
    "now": {"volumeBindingMode": "Immediate"},
}


@pytest.mark.parametrize(
    ("claims", "selectors", "problem"),
    [
        ([], 0, ""),
        (["bound", "anywhere", "waiting"], 1, ""),
        (["missing"], 0, 'persistentvolumeclaim "missing" not found'),
        (["lost"], 0, 'persistentvolume "gone" not found'),
        (["immediate"], 0, "pod has unbound immediate PersistentVolumeClaims"),
        (["classless"], 0, "pod has unbound immediate PersistentVolumeClaims"),
        (["leaving"], 0, 'persistentvolumeclaim "leaving" is being deleted'),
    ],
)
def test_what_volumes_demand(claims: list[str], selectors: int, problem: str) -> None:
    found = volume_demands(
        claims, claim=CLAIMS.get, volume=VOLUMES.get, storage_class=CLASSES.get, volumes=list
    )
    assert (len(found.nodes), found.problem) == (selectors, problem)


def test_claims_of_a_pod() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "c", "emptyDir": {}},
    ]
    assert list(claims_of({"metadata": {"name": "p"}, "spec": {"volumes": volumes}})) == ["data", "p-b"]
    assert list(claims_of({"metadata": {"name": "p"}})) == []
