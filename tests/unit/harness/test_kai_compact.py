"""Compact clusters become the objects that the case language says."""

from typing import Any

import pytest

from quarterdeck.api import Time, from_dict
from quarterdeck.operators.kai.logic.intake import pod_group_info, queue_info
from quarterdeck.operators.kai.types import PodGroup, Queue
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.intake import node_info, pod_info
from quarterdeck.scheduler.model.state import state_of
from quarterdeck.scheduler.snapshot import GpuShare, PodInfo, QueueResource
from tests.harness.case import CaseFailure
from tests.harness.kai.compact import CompactCluster

NOW = 1_700_000_000.0
OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def cluster(**given: Any) -> CompactCluster:
    return CompactCluster({"podGroups": [], "pods": [], **given}, NOW)


def pod(**compact: Any) -> PodInfo:
    return pod_info(cluster().pod({"name": "p", "podGroup": "g", "state": "Pending", **compact}))


def at(document: dict[str, Any], annotation: str) -> float:
    return Time(document["metadata"]["annotations"][f"kai.scheduler/{annotation}"]).timestamp()


class TestNodes:
    def test_what_is_not_said_is_large(self) -> None:
        (node,) = map(node_info, cluster(nodes=[{"name": "n", "gpus": 4}]).nodes())
        assert (node.allocatable.cpu, node.allocatable.memory) == (20_000_000, 20 * 10**9)
        assert (node.allocatable.gpu, node.pods, node.is_ready) == (4, 110, True)
        assert node.labels == {"kubernetes.io/hostname": "n"}

    def test_what_is_said_counts(self) -> None:
        given = {"name": "n", "gpus": 0, "cpu": "2", "memory": "3G", "pods": 1, "labels": {"rack": "r"}}
        (node,) = map(node_info, cluster(nodes=[given]).nodes())
        assert (node.allocatable.cpu, node.allocatable.memory, node.allocatable.gpu) == (2000, 3 * 10**9, 0)
        assert (node.pods, node.labels["rack"]) == (1, "r")


class TestQueues:
    def test_cpu_and_memory_are_unlimited_unless_said(self) -> None:
        (document,) = cluster(queues=[{"name": "q", "gpu": {"quota": 2, "limit": 3}}]).queues()
        queue = queue_info(from_dict(document, Queue))
        assert (queue.gpu.quota, queue.gpu.limit, queue.gpu.over_quota_weight) == (2, 3, 0)
        assert queue.cpu == queue.memory == QueueResource(-1, -1, 1)
        assert (queue.parent, queue.priority) == ("", 100)

    def test_siblings_are_a_minute_apart(self) -> None:
        given = [{"name": name, "createdOrder": order, "gpu": OPEN} for order, name in enumerate("ab")]
        first, second = (queue_info(from_dict(each, Queue)) for each in cluster(queues=given).queues())
        assert second.created - first.created == 60


class TestPodGroups:
    def test_priorities_have_classes(self) -> None:
        values = {"a": 75, "b": 50, "c": 75}
        groups = [{"name": name, "queue": "q", "priority": value} for name, value in values.items()]
        made = cluster(podGroups=groups)
        classes = [(each["metadata"]["name"], each["value"]) for each in made.priority_classes()]
        assert classes == [("prio-50", 50), ("prio-75", 75)]
        named = [each["spec"]["priorityClassName"] for each in made.pod_groups()]
        assert named == ["prio-75", "prio-50", "prio-75"]

    def test_ages(self) -> None:
        group = {"name": "g", "queue": "q", "ageMinutes": 3, "staleSeconds": 20}
        (document,) = cluster(podGroups=[group]).pod_groups()
        assert pod_group_info(from_dict(document, PodGroup)).created == NOW - 180
        assert at(document, "stale-podgroup-timestamp") == NOW - 20
        assert "kai.scheduler/last-start-timestamp" not in document["metadata"]["annotations"]

    @pytest.mark.parametrize(
        ("state", "has_started"),
        [("Running", True), ("Bound", True), ("Releasing", True), ("Pending", False), ("Failed", False)],
    )
    def test_groups_with_bound_pods_started_a_minute_ago(self, state: str, has_started: bool) -> None:
        pods = [{"name": "p", "podGroup": "g", "state": state, "node": "n"}]
        (document,) = cluster(podGroups=[{"name": "g", "queue": "q"}], pods=pods).pod_groups()
        info = pod_group_info(from_dict(document, PodGroup))
        assert info.last_start == (NOW - 60 if has_started else None)

    def test_fields_of_the_spec_are_carried_over(self) -> None:
        spec = {
            "queue": "q",
            "minMember": 2,
            "preemptibility": "non-preemptible",
            "markUnschedulable": False,
            "schedulingBackoff": 1,
            "subGroups": [{"name": "a"}],
            "topologyConstraint": {"topology": "t"},
        }
        (document,) = cluster(podGroups=[{"name": "g", **spec}]).pod_groups()
        assert document["spec"] == spec


class TestPods:
    @pytest.mark.parametrize(
        ("compact", "state"),
        [
            ({"state": "Pending"}, PodState.PENDING),
            ({"state": "Pending", "gated": True}, PodState.GATED),
            ({"state": "Bound", "node": "n"}, PodState.BOUND),
            ({"state": "Running", "node": "n"}, PodState.RUNNING),
            ({"state": "Releasing", "node": "n"}, PodState.RELEASING),
            ({"state": "Failed", "node": "n"}, PodState.FAILED),
            ({"state": "Succeeded", "node": "n"}, PodState.SUCCEEDED),
        ],
    )
    def test_states(self, compact: dict[str, Any], state: PodState) -> None:
        made = pod(**compact)
        assert state_of(made, has_bind_request=False) is state
        assert made.node == compact.get("node", "")

    def test_requests(self) -> None:
        usual, own, none = pod(gpu=2), pod(cpu="500m", memory="2G"), pod(bestEffort=True)
        assert (usual.request.cpu, usual.request.memory, usual.request.gpu) == (1000, 10**9, 2)
        assert (own.request.cpu, own.request.memory, own.request.gpu) == (500, 2 * 10**9, 0)
        assert (none.request.cpu, none.request.memory, none.request.gpu) == (0, 0, 0)

    def test_marks(self) -> None:
        made = pod(subGroup="a", taskPriority=7, gpuFraction=0.5, gpuGroup="one")
        assert (made.uid, made.pod_group, made.subgroup) == ("p", "g", "a")
        assert made.labels["kai.scheduler/task-priority"] == "7"
        assert (made.gpu_share, made.gpu_groups) == (GpuShare(0.5), ("one",))

    def test_node_affinity_names_hosts(self) -> None:
        made = cluster().pod({"name": "p", "podGroup": "g", "state": "Pending", "nodeAffinity": ["n1", "n2"]})
        required = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
        ]


def test_what_others_refer_to_comes_first() -> None:
    given = {
        "nodes": [{"name": "n"}],
        "queues": [{"name": "q", "gpu": OPEN}],
        "topologies": [{"name": "t", "levels": ["zone", "rack"]}],
        "podGroups": [{"name": "g", "queue": "q", "priority": 50}],
        "pods": [{"name": "p", "podGroup": "g", "state": "Pending"}],
    }
    made = cluster(**given).objects()
    assert [each["kind"] for each in made] == [
        "Node",
        "Queue",
        "PriorityClass",
        "Topology",
        "PodGroup",
        "Pod",
    ]
    assert made[3]["spec"] == {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}


class TestWords:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"pods": [{"name": "p", "gpuMemroy": 1}]}, "given.pods[0](p).gpuMemroy"),
            ({"pods": [{"name": "p", "state": "Waiting"}]}, "given.pods[0](p).state: 'Waiting'"),
            ({"pods": [{"podAffinity": [{"matchLabel": {}}]}]}, "given.pods[0].podAffinity[0].matchLabel"),
            ({"nodes": [{"name": "n", "gpu": 1}]}, "given.nodes[0](n).gpu"),
            ({"queues": [{"name": "q", "gpu": {"weight": 1}}]}, "given.queues[0](q).gpu.weight"),
            ({"podGroups": [{"subGroups": [{"min": 1}]}]}, "given.podGroups[0].subGroups[0].min"),
            ({"topologies": [{"level": []}]}, "given.topologies[0].level"),
            ({"needs": ["gpuMemory", "magic"]}, "given.needs[1]: 'magic'"),
            ({"volumes": []}, "given.volumes"),
        ],
    )
    def test_unknown_ones_are_refused_wherever_they_stand(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(CaseFailure) as failure:
            cluster(**given)
        (line,) = failure.value.lines
        assert line.startswith(told)

    def test_single_pods_are_held_to_them_too(self) -> None:
        with pytest.raises(CaseFailure, match=r"pod\.gpus is not understood"):
            pod(gpus=1)


class TestNewWordsOfPods:
    def test_labels_are_further_labels(self) -> None:
        assert pod(labels={"app": "a"}, subGroup="s").labels == {
            "app": "a",
            "kai.scheduler/subgroup-name": "s",
        }

    def test_gpu_memory_is_a_share_of_one_gpu(self) -> None:
        assert pod(gpuMemory=4096).gpu_share == GpuShare(memory=4096)

    @pytest.mark.parametrize("word", ["podAffinity", "podAntiAffinity"])
    def test_affinities_are_required_terms(self, word: str) -> None:
        term = {"topologyKey": "zone", "matchLabels": {"app": "a"}}
        document = cluster().pod({"name": "p", "podGroup": "g", "state": "Pending", word: [term]})
        assert document["spec"]["affinity"] == {
            word: {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
                ]
            }
        }
