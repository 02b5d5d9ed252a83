"""Nodes and pods of the API as the scheduler reads them."""

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.api.k8s import Taint
from quarterdeck.scheduler.device import PodClaim
from quarterdeck.scheduler.intake import node_info, pod_info
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, PodConstraints

CUT = "node-role.kubernetes.io/mig-enabled"
STRATEGY = "nvidia.com/mig.strategy"


def node(**parts: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "n0", **parts.get("metadata", {})},
        "spec": parts.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "4"},
            **parts.get("status", {}),
        },
    }


def conditions(**values: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": value} for kind, value in values.items()]}


def pod(
    *containers: dict[str, Any],
    annotations: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    **parts: dict[str, Any],
) -> dict[str, Any]:
    metadata = {
        "namespace": "team",
        "name": "p",
        "uid": "u",
        "creationTimestamp": "1970-01-01T00:01:00Z",
        "annotations": annotations or {},
        "labels": labels or {},
    }
    return {
        "metadata": {**metadata, **parts.get("metadata", {})},
        "spec": {"containers": list(containers), **parts.get("spec", {})},
        "status": parts.get("status", {}),
    }


def asks(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


class TestNode:
    def test_allocatable_is_what_counts(self) -> None:
        info = node_info(
            node(status={"capacity": {"cpu": "64"}, "allocatable": {"cpu": "2", "example.com/nic": "3"}})
        )
        assert info.allocatable == Resources(2000, 0, 0, (("example.com/nic", 3),))
        assert info.pods == 0

    def test_cpu_is_in_thousandths_and_memory_in_bytes(self) -> None:
        info = node_info(node())
        assert info.allocatable == Resources(3920, 8 << 30, 4)
        assert info.pods == 110

    @pytest.mark.parametrize(
        ("status", "is_ready", "pressures"),
        [
            ({}, True, ()),
            (conditions(Ready="True"), True, ()),
            (conditions(Ready="False"), False, ()),
            (conditions(Ready="Unknown"), False, ()),
            (conditions(Ready="True", MemoryPressure="False"), True, ()),
            (
                conditions(Ready="True", PIDPressure="True", DiskPressure="Unknown"),
                True,
                ("DiskPressure", "PIDPressure"),
            ),
            (conditions(NetworkUnavailable="True"), True, ("NetworkUnavailable",)),
            (conditions(Strange="True"), True, ()),
        ],
    )
    def test_conditions(self, status: dict[str, Any], is_ready: bool, pressures: tuple[Any, ...]) -> None:
        info = node_info(node(status=status))
        assert (info.is_ready, info.pressures) == (is_ready, pressures)

    def test_taints_and_labels(self) -> None:
        info = node_info(
            node(
                metadata={"labels": {"zone": "a"}},
                spec={"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            )
        )
        assert info.is_unschedulable
        assert info.taints == (Taint(key="k", value="v", effect="NoSchedule"),)
        assert info.labels == {"zone": "a"}

    @pytest.mark.parametrize(
        ("label", "memory"),
        [
            ("81559", 81500),
            ("100", 100),
            ("85520809984", 81500),
            ("1048575", 1048500),
            ("1048576", 0),
            ("209715200", 200),
            ("many", 0),
            ("", 0),
            ("-5", 0),
        ],
    )
    def test_gpu_memory_in_whole_hundreds(self, label: str, memory: int) -> None:
        assert node_info(node(metadata={"labels": {"nvidia.com/gpu.memory": label}})).gpu_memory == memory

    @pytest.mark.parametrize(
        ("labels", "offered", "strategy"),
        [
            ({}, {}, ""),
            ({STRATEGY: "mixed"}, {}, ""),
            ({CUT: "true"}, {}, "none"),
            ({CUT: "true", STRATEGY: "single"}, {}, "single"),
            ({CUT: "1", STRATEGY: "mixed"}, {}, "mixed"),
            ({CUT: "true", STRATEGY: "other"}, {}, "none"),
            ({CUT: "false", STRATEGY: "mixed"}, {"nvidia.com/mig-1g.5gb": "7"}, ""),
            ({STRATEGY: "mixed"}, {"nvidia.com/mig-1g.5gb": "7"}, "mixed"),
            ({}, {"nvidia.com/mig-1g.5gb": "7"}, "none"),
        ],
    )
    def test_gpus_that_are_cut_into_instances(
        self, labels: dict[str, str], offered: dict[str, str], strategy: str
    ) -> None:
        found = node_info(node(metadata={"labels": labels}, status={"allocatable": offered}))
        assert found.mig_strategy == strategy

    def test_a_node_that_says_nothing_is_ready_and_empty(self) -> None:
        info = node_info({"metadata": {"name": "n"}})
        assert (info.is_ready, info.is_unschedulable, info.pods) == (True, False, 0)
        assert info.allocatable == Resources()


class TestPod:
    def test_its_identity(self) -> None:
        info = pod_info(pod(asks(cpu="1")))
        assert (info.key, info.uid, info.created) == (Key("team", "p"), "u", 60.0)

    def test_containers_are_added_and_init_containers_come_one_by_one(self) -> None:
        init = {"initContainers": [asks(cpu="5"), asks(cpu="1", memory="4Gi")]}
        info = pod_info(pod(asks(cpu="1", memory="1Gi"), asks(cpu="500m", memory="1Gi"), spec=init))
        assert info.request.cpu == 5000
        assert info.request.memory == 4 << 30

    def test_overhead_is_added(self) -> None:
        info = pod_info(pod(asks(cpu="1"), spec={"overhead": {"cpu": "250m"}}))
        assert info.request == Resources(1250, 0, 0)

    def test_gpus_and_other_resources(self) -> None:
        requests = {"nvidia.com/gpu": "2", "example.com/nic": "1"}
        info = pod_info(pod({"name": "c", "resources": {"requests": requests}}))
        assert info.request == Resources(0, 0, 2, (("example.com/nic", 1),))

    @pytest.mark.parametrize(
        ("parts", "field", "value"),
        [
            ({}, "scheduler_name", "default-scheduler"),
            ({"spec": {"schedulerName": "kai-scheduler"}}, "scheduler_name", "kai-scheduler"),
            ({}, "phase", "Pending"),
            ({"status": {"phase": "Running"}}, "phase", "Running"),
            ({"spec": {"nodeName": "n0"}}, "node", "n0"),
            ({"status": {"nominatedNodeName": "n1"}}, "nominated_node", "n1"),
            ({}, "is_deleted", False),
            ({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}}, "is_deleted", True),
            ({"spec": {"schedulingGates": [{"name": "g"}]}}, "is_gated", True),
            ({"spec": {"schedulingGates": []}}, "is_gated", False),
            ({"annotations": {"pod-group-name": "g"}}, "pod_group", "g"),
            ({"labels": {"kai.scheduler/subgroup-name": "s"}}, "subgroup", "s"),
            ({"labels": {"runai-gpu-group": "a"}}, "gpu_groups", ("a",)),
            ({"labels": {"runai-gpu-group/b": "b", "runai-gpu-group/a": "a"}}, "gpu_groups", ("a", "b")),
        ],
    )
    def test_fields(self, parts: dict[str, Any], field: str, value: object) -> None:
        assert getattr(pod_info(pod(asks(cpu="1"), **parts)), field) == value

    @pytest.mark.parametrize(
        ("annotations", "share"),
        [
            ({}, None),
            ({"gpu-fraction": "0.5"}, GpuShare(0.5)),
            ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, GpuShare(0.5, 0, 2)),
            ({"gpu-memory": "2000"}, GpuShare(0.0, 2000)),
            ({"gpu-memory": "2000", "gpu-fraction-num-devices": "3"}, GpuShare(0.0, 2000, 3)),
            ({"gpu-fraction": "1"}, None),
            ({"gpu-fraction": "0"}, None),
            ({"gpu-memory": "0"}, None),
            ({"gpu-fraction": "0", "gpu-memory": "1"}, GpuShare(0.0, 1)),
            ({"gpu-fraction": "0.5", "gpu-memory": "0"}, GpuShare(0.5)),
            ({"gpu-fraction": "1.5"}, None),
            ({"gpu-fraction": "-0.5"}, None),
            ({"gpu-fraction": "half"}, None),
            ({"gpu-memory": "-1"}, None),
            ({"gpu-fraction-num-devices": "2"}, None),
            ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, None),
        ],
    )
    def test_shared_gpus(self, annotations: dict[str, Any], share: GpuShare | None) -> None:
        assert pod_info(pod(asks(cpu="1"), annotations=annotations)).gpu_share == share

    def test_constraints(self) -> None:
        spec = {
            "nodeSelector": {"b": "2", "a": "1"},
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "ports": [{"hostPort": 81, "protocol": "UDP"}]},
                {"name": "init", "ports": [{"hostPort": 82}]},
            ],
        }
        ports = {"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 9}]}
        found = pod_info(pod({"name": "c", **ports}, spec=spec)).constraints
        assert found.node_selector == (("a", "1"), ("b", "2"))
        assert [each.operator for each in found.tolerations] == ["Exists"]
        assert found.host_ports == (HostPort(80, "TCP", "10.0.0.1"), HostPort(81, "UDP"))

    def test_pods_without_constraints_have_equal_ones(self) -> None:
        assert pod_info(pod(asks(cpu="1"))).constraints == PodConstraints()

    @pytest.mark.parametrize(
        "spec", [{"nodeSelector": {"a": "1"}}, {"tolerations": [{}]}, {"affinity": {"nodeAffinity": {}}}]
    )
    def test_each_constraint_counts_alone(self, spec: dict[str, Any]) -> None:
        found = pod_info(pod(asks(cpu="1"), spec=spec)).constraints
        assert len(found.node_selector) == ("nodeSelector" in spec)
        assert len(found.tolerations) == ("tolerations" in spec)
        assert (found.affinity is not None) == ("affinity" in spec)

    def test_claims_are_those_named_or_made_for_the_pod(self) -> None:
        spec = {
            "resourceClaims": [
                {"name": "named", "resourceClaimName": "mine"},
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "missing", "resourceClaimTemplateName": "t"},
                {"name": "unneeded", "resourceClaimTemplateName": "t"},
            ]
        }
        statuses = [{"name": "made", "resourceClaimName": "p-made-x"}, {"name": "unneeded"}]
        found = pod_info(pod(asks(cpu="1"), spec=spec, status={"resourceClaimStatuses": statuses}))
        assert found.claims == (PodClaim("named", "mine"), PodClaim("made", "p-made-x"))
        assert pod_info(pod(asks(cpu="1"))).claims == ()
