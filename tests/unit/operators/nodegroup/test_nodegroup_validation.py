"""The policy checks, one by one, through the admission endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.operators.nodegroup import names

from .admissionkit import CUSTOM, DOCKER, EPHEMERAL, UNSUPPORTED, Json, ask, denial, group, warnings
from .clusterfake import FakeCluster


@pytest.mark.parametrize(("length", "is_allowed"), [(26, True), (27, False)])
def test_prefix_and_name_must_leave_room_for_hashes(length: int, is_allowed: bool) -> None:
    cluster = FakeCluster()
    cluster.configure("clusterType: Cloud\ncloud: {prefix: fifteen-chars-x}")
    assert ask(group("a" * length), cluster=cluster)["allowed"] is is_allowed
    assert ask(group("a" * length), group("a" * length), cluster)["allowed"] is True


def test_the_prefix_of_the_global_settings_wins_and_double_base64_is_decoded() -> None:
    cluster = FakeCluster()
    cluster.configure("Y2x1c3RlclR5cGU6IENsb3VkCmNsb3VkOgogIHByZWZpeDogYWJjCg==")
    assert denial(group("a" * 39), cluster=cluster).endswith(
        "max nodegroup name length for this cluster is 38"
    )
    cluster.set_global({"prefix": "abcdef"})
    assert denial(group("a" * 39), cluster=cluster).endswith(
        "max nodegroup name length for this cluster is 35"
    )


def test_absent_bounds_count_as_zero() -> None:
    message = "it is forbidden to set maxPerZone lower than minPerZone for NodeGroup"
    assert denial(group(cloudInstances={"minPerZone": 1})) == message
    assert warnings(group(cloudInstances={})) == []


@pytest.mark.parametrize(
    ("prefix", "pods", "is_warned"),
    [
        ("24", 126, False),
        ("24", 127, True),
        ('"22"', 510, False),
        ("33", 127, True),
        ("0", 127, True),
        ("x", 126, False),
        ("22.5", 127, True),
        ("true", 127, True),
        ("32", 0, True),
    ],
)
def test_too_many_pods_for_the_subnet_are_a_warning(prefix: str, pods: int, is_warned: bool) -> None:
    cluster = FakeCluster()
    cluster.configure(f"podSubnetNodeCIDRPrefix: {prefix}")
    found = warnings(group(kubelet={"maxPods": pods}), cluster=cluster)
    text = f".spec.kubelet.maxPods ({pods}) is too high: may lead to IP exhaustion"
    assert found == ([text] if is_warned else [])


def test_zones_must_be_known_if_any_are() -> None:
    cluster = FakeCluster()
    cluster.set_zones(b'{"zones": ["a", "b"]}')
    zoned = group(
        **{**EPHEMERAL, "cloudInstances": {**EPHEMERAL["cloudInstances"], "zones": ["a", "A", "c"]}}
    )
    assert denial(zoned, cluster=cluster) == 'unknown zone "A"'
    cluster.set_zones(b"{}")
    assert warnings(zoned, cluster=cluster) == []


@pytest.mark.parametrize("content", [b"not json", b"[]", b'{"zones": 7}', b'{"zones": [7]}'])
def test_malformed_discovery_data_is_an_error_only_where_zones_are_set(content: bytes) -> None:
    cluster = FakeCluster()
    cluster.set_zones(content)
    assert warnings(group(), cluster=cluster) == []
    zoned = group(**{**EPHEMERAL, "cloudInstances": {**EPHEMERAL["cloudInstances"], "zones": ["a"]}})
    status = ask(zoned, cluster=cluster)["status"]
    assert status["code"] == 500
    assert status["message"].startswith(
        "failed to load provider cluster config: failed to parse cloud-provider-discovery-data.json: "
    )


def test_a_violation_before_unreadable_state_is_the_answer() -> None:
    cluster = FakeCluster()
    cluster.set_zones(b"not json")
    instances = {**EPHEMERAL["cloudInstances"], "zones": ["a"], "minPerZone": 9}
    wanted = "it is forbidden to set maxPerZone lower than minPerZone for NodeGroup"
    assert denial(group(**{**EPHEMERAL, "cloudInstances": instances}), cluster=cluster) == wanted


def test_docker_is_refused_even_where_it_is_already() -> None:
    docker = group(cri={"type": "Docker"})
    assert denial(docker, docker) == DOCKER


@pytest.mark.parametrize(
    ("kind", "section", "owner"),
    [
        ("ContainerdV2", "containerd", "Containerd"),
        ("Containerd", "containerdV2", "ContainerdV2"),
        ("NotManaged", "docker", "Docker"),
    ],
)
def test_settings_of_another_runtime_are_refused(kind: str, section: str, owner: str) -> None:
    message = f'it is forbidden to set .spec.cri.{section} without .spec.cri.type="{owner}"'
    assert denial(group(cri={"type": kind, section: {}})) == message
    assert warnings(group(cri={section: {}})) == []


@pytest.mark.parametrize(("endpoints", "is_warned"), [(0, True), (2, True), (3, False)])
def test_changing_the_runtime_of_masters_warns_below_three_endpoints(endpoints: int, is_warned: bool) -> None:
    cluster = FakeCluster()
    cluster.set_endpoints(endpoints)
    new = group("master", nodeType="CloudPermanent", cri={"type": "ContainerdV2"})
    old = group("master", nodeType="CloudPermanent")
    assert bool(warnings(new, old, cluster)) is is_warned
    assert warnings(new, cluster=cluster) == []


def test_foreign_taints_are_listed_in_order_one_per_taint() -> None:
    cluster = FakeCluster()
    cluster.set_global({"modules": {"placement": {"customTolerationKeys": ["known", 7]}}})
    taints = [{"key": key} for key in ("z", "known", "dedicated", "a", "z")]
    message = denial(group(nodeTemplate={"taints": taints}), cluster=cluster)
    assert message.endswith(".customTolerationKeys, add: z, a, z to customTolerationKeys")


@pytest.mark.parametrize(
    "settings", [{}, {"modules": 7}, {"modules": {"placement": {"customTolerationKeys": "z"}}}]
)
def test_wrong_types_in_the_global_settings_mean_no_keys(settings: Any) -> None:
    cluster = FakeCluster()
    cluster.set_global(settings)
    assert "add: z to" in denial(group(nodeTemplate={"taints": [{"key": "z"}]}), cluster=cluster)


def test_rolling_updates_are_for_ephemeral_groups_whatever_the_version() -> None:
    rolling = {"approvalMode": "RollingUpdate"}
    assert 'is not "CloudEphemeral"' in denial(group(nodeType="CloudPermanent", disruptions=rolling))
    assert warnings(group(**EPHEMERAL, disruptions=rolling)) == []
    old = group(version=names.V1ALPHA2, **{**EPHEMERAL, "nodeType": "Cloud"}, disruptions=rolling)
    assert warnings(old) == []


def test_the_node_type_is_immutable() -> None:
    assert denial(group(**EPHEMERAL), group()) == ".spec.nodeType field is immutable"


@pytest.mark.parametrize(
    ("new", "what"),
    [
        ({"staticInstances": {"labelSelector": {"matchLabels": {"a": "2"}}}}, "modified"),
        ({"staticInstances": {"labelSelector": {"matchLabels": {}}}}, "modified or removed"),
        ({"staticInstances": {"count": 1}}, "modified or removed"),
        ({}, "modified or removed"),
    ],
)
def test_a_selector_stays_what_it_is(new: Json, what: str) -> None:
    old = group(staticInstances={"labelSelector": {"matchLabels": {"a": "1"}}})
    assert f"cannot be {what} once set" in denial(group(**new), old)


def test_an_empty_selector_may_be_filled() -> None:
    old = group(staticInstances={"labelSelector": {"matchExpressions": []}})
    new = group(staticInstances={"labelSelector": {"matchLabels": {"a": "1"}}})
    assert warnings(new, old) == []
    assert warnings(new, new) == []


def test_one_taint_per_key_and_effect() -> None:
    taints = [{"key": "dedicated", "effect": "NoExecute"}, {"key": "dedicated", "effect": "NoSchedule"}]
    assert warnings(group(nodeTemplate={"taints": taints})) == []
    assert "only one taint" in denial(group(nodeTemplate={"taints": [*taints, {**taints[0], "value": "x"}]}))


@pytest.mark.parametrize(
    ("manager", "reservation", "answer"),
    [
        ({"enabled": True}, None, "must be enabled"),
        ({"enabled": True}, {"mode": "Off"}, "must be enabled"),
        ({"policy": "BestEffort"}, {"mode": "Off"}, "must be enabled"),
        ({"policy": "BestEffort"}, {"mode": "Auto"}, ""),
        ({"policy": "None"}, {"mode": "Off"}, ""),
        ({"enabled": False, "policy": "Restricted"}, {"mode": "Off"}, ""),
        ({"enabled": True}, {"mode": "Static", "static": {"memory": "1Gi"}}, "static.cpu must be specified"),
        ({"enabled": True}, {"mode": "Static", "static": {"cpu": 0}}, ""),
    ],
)
def test_the_topology_manager_needs_reserved_cpu(manager: Json, reservation: Any, answer: str) -> None:
    kubelet = {"topologyManager": manager, "resourceReservation": reservation}
    if answer:
        assert answer in denial(group(kubelet=kubelet))
    else:
        assert warnings(group(kubelet=kubelet)) == []


def test_custom_nodes_block_a_change_of_the_effective_runtime() -> None:
    cluster = FakeCluster()
    cluster.add_node("w-2", **CUSTOM)
    cluster.add_node("w-1", **CUSTOM)
    assert denial(group(cri={"type": "NotManaged"}), group(), cluster) == (
        "CRI cannot be changed because some nodes are using custom configuration: w-1 w-2"
    )
    assert warnings(group(cri={"type": "Containerd"}), group(), cluster) == []
    assert warnings(group(cri={"type": "NotManaged"}), cluster=cluster) == []


def test_unsupported_nodes_block_containerd_v2_even_unchanged() -> None:
    cluster = FakeCluster()
    cluster.configure("defaultCRI: ContainerdV2")
    cluster.add_node("w-1", **UNSUPPORTED)
    cluster.add_node("x", **{**UNSUPPORTED, names.CONTAINERD_V2_UNSUPPORTED_LABEL: "no"})
    assert denial(group(), group(), cluster).endswith(
        "kubectl get node -l node.deckhouse.io/containerd-v2-unsupported,node.deckhouse.io/group=worker"
    )
    assert warnings(group(cri={"type": "Containerd"}), group(), cluster) == []


def test_limited_swap_needs_cgroup_v2_on_all_nodes() -> None:
    cluster = FakeCluster()
    swap = group(kubelet={"memorySwap": {"swapBehavior": "LimitedSwap", "limitedSwap": {"size": "1G"}}})
    assert warnings(swap, group(), cluster) == []
    cluster.add_node("w-1", **UNSUPPORTED)
    assert denial(swap, group(), cluster).startswith('memorySwap requires cgroup v2, but NodeGroup "worker"')


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"from": "24:00", "to": "1:00"}, '.from: invalid time format "24:00", expected HH:MM'),
        ({"from": "1:00"}, '.to: invalid time format "", expected HH:MM'),
        ({"from": "1:00", "to": "1:00\n"}, '.to: invalid time format "1:00\n", expected HH:MM'),
        (
            {"from": "1:00", "to": "2:00", "days": ["Mon", "Monday"]},
            '.days: invalid day "Monday", expected one of Mon,Tue,Wed,Thu,Fri,Sat,Sun',
        ),
    ],
)
def test_windows_are_checked_one_by_one(window: Json, message: str) -> None:
    good = {"from": "1:00", "to": "23:59"}
    rolling = {"approvalMode": "RollingUpdate", "rollingUpdate": {"windows": [good, window]}}
    assert (
        denial(group(**EPHEMERAL, disruptions=rolling))
        == f".spec.disruptions.rollingUpdate.windows[1]{message}"
    )
