"""The admission plugins that were first: priorities, tolerations, runtime classes, resizes, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.admission.plugin.namespace import terminating_namespace
from quarterdeck.apiserver.builtin.cluster.priorityclass import SYSTEM_CLASSES
from quarterdeck.apiserver.status import StatusError
from tests.unit.apiserver.builtin.builtin_writepath import Admission, Context, create

Json = dict[str, Any]
NAMESPACES = "/api/v1/namespaces"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/ns/pods"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def priority_class(name: str, value: int, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority", **fields}


def with_classes(*classes: Json) -> Context:
    context = Context()
    for item in (*SYSTEM_CLASSES, *classes):
        context.cluster.add("scheduling.k8s.io", "priorityclasses", dict(item))
    return context


def test_a_class_decides_priority_and_preemption() -> None:
    context = with_classes(priority_class("batch", 1000, preemptionPolicy="Never"))
    spec = create(PODS, pod(priorityClassName="batch"), context)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    critical = create(PODS, pod(priorityClassName="system-node-critical"), context)["spec"]
    assert critical["priority"] == 2000001000


def test_without_a_class_the_default_class_counts() -> None:
    assert create(PODS, pod(), with_classes())["spec"]["priority"] == 0
    context = with_classes(priority_class("low", 5, globalDefault=True), priority_class("high", 9))
    spec = create(PODS, pod(), context)["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (5, "low")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priorityClassName": "batch", "priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; priority admission "
                "controller computed 1000 from the given PriorityClass name"
            ),
        ),
        (
            {"priorityClassName": "batch", "preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority "
                "admission controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
        ({"runtimeClassName": "gvisor"}, 'pod rejected: RuntimeClass "gvisor" not found'),
    ],
)
def test_pods_are_refused(spec: Json, why: str) -> None:
    with pytest.raises(StatusError) as caught:
        create(PODS, pod(**spec), with_classes(priority_class("batch", 1000)))
    assert caught.value.code == 403
    assert caught.value.message == f'pods "p" is forbidden: {why}'


def test_one_default_class_at_a_time() -> None:
    context = with_classes(priority_class("low", 5, globalDefault=True))
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    with pytest.raises(StatusError) as caught:
        create(path, {"metadata": {"name": "b"}, "value": 6, "globalDefault": True}, context)
    assert caught.value.message == (
        'priorityclasses.scheduling.k8s.io "b" is forbidden: '
        "PriorityClass low is already marked as default. Only one default can exist"
    )
    same = priority_class("low", 5, globalDefault=True)
    Admission(CLASSES, "", "UPDATE", context).validate(same, same)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        (
            [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}],
            [NOT_READY],
        ),
    ],
)
def test_pods_tolerate_a_lost_node_for_five_minutes(given: list[Json], added: list[Json]) -> None:
    assert create(PODS, pod(tolerations=given))["spec"].get("tolerations", []) == given + added


def test_new_nodes_are_tainted_once() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    first = create("/api/v1/nodes", {"metadata": {"name": "n"}})
    assert first["spec"]["taints"] == [taint]
    again = create("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
    assert again["spec"]["taints"] == [taint]


def node(**allocatable: str) -> Json:
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "x"}
    return {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}


def test_zone_and_region_follow_the_node() -> None:
    context = Context()
    context.cluster.add("", "nodes", node())
    expected = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    assert create(PODS, pod(nodeName="n"), context)["metadata"]["labels"] == expected
    binding: Json = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    Admission(PODS, "binding", "CREATE", context).mutate(binding, None)
    assert binding["metadata"]["labels"] == expected
    assert "labels" not in create(PODS, pod(nodeName="unknown"), context)["metadata"]


def resize(context: Context) -> None:
    small = pod(nodeName="n", containers=[{"name": "c", "resources": {"requests": {"cpu": "100m"}}}])
    big = pod(
        nodeName="n", containers=[{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "2"}}}]
    )
    Admission(PODS, "resize", "UPDATE", context).validate(big, small)


def test_a_resized_pod_fits_on_its_node() -> None:
    context = Context()
    with pytest.raises(StatusError, match='node "n" not found'):
        resize(context)
    context.cluster.add("", "nodes", node(cpu="250m"))
    with pytest.raises(StatusError) as caught:
        resize(context)
    assert caught.value.message == (
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: '
        "cpu, requested: 500, allocatable: 250; memory, requested: 2, allocatable: 0"
    )
    context.cluster.add("", "nodes", node(cpu="1", memory="1Gi"))
    resize(context)


def test_some_namespaces_stay() -> None:
    for name in ("default", "kube-system", "kube-public"):
        with pytest.raises(StatusError, match="this namespace may not be deleted"):
            Admission(NAMESPACES, "", "DELETE", Context()).validate(None, {"metadata": {"name": name}})
    Admission(NAMESPACES, "", "DELETE", Context()).validate(None, {"metadata": {"name": "mine"}})


def test_a_terminating_namespace_takes_nothing_new() -> None:
    status = terminating_namespace("", "configmaps", "b", "ns").to_status()
    assert status["message"] == (
        'configmaps "b" is forbidden: unable to create new content in namespace ns '
        "because it is being terminated"
    )
    assert status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]
