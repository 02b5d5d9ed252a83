"""The policy checks together: order, warnings, unreadable state, old versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quarterdeck.errors import Forbidden
from quarterdeck.operators.nodegroup import names

from .admissionkit import CUSTOM, DOCKER, UNSUPPORTED, Json, ask, denial, group, warnings
from .clusterfake import FakeCluster


def test_all_violations_are_causes_and_the_first_is_the_message() -> None:
    bad = group(cri={"type": "Docker", "containerd": {}}, disruptions={"approvalMode": "RollingUpdate"})
    status = ask(bad)["status"]
    causes = [cause["message"] for cause in status["details"]["causes"]]
    assert status["message"] == causes[0] == DOCKER
    assert len(causes) == 3


def messages(*args: Any, **kwargs: Any) -> list[str]:
    status = ask(*args, **kwargs)["status"]
    found = [cause["message"] for cause in status["details"]["causes"]]
    assert found[0] == status["message"]
    return found


def test_everything_wrong_with_a_new_group_in_the_order_of_the_checks() -> None:
    cluster = FakeCluster()
    cluster.configure("clusterType: Cloud\ncloud: {prefix: prod}\npodSubnetNodeCIDRPrefix: 28")
    cluster.set_zones(b'{"zones": ["a"]}')
    window = {"from": "24:00", "to": "x", "days": ["Mon", "Someday"]}
    new = group(
        "a" * 42,
        cloudInstances={"minPerZone": 2, "maxPerZone": 1, "zones": ["a", "b", "c"]},
        kubelet={"maxPods": 500, "topologyManager": {"policy": "Restricted"}},
        cri={"type": "Docker", "containerd": {}, "containerdV2": {}},
        nodeTemplate={"taints": [{"key": "k"}, {"key": "k"}]},
        disruptions={"approvalMode": "RollingUpdate", "automatic": {"windows": [window]}},
    )
    assert messages(new, cluster=cluster) == [
        (
            "it is forbidden for this cluster to set (cluster prefix + node group name) longer than 42 "
            "symbols; max nodegroup name length for this cluster is 37"
        ),
        "it is forbidden to set maxPerZone lower than minPerZone for NodeGroup",
        'unknown zone "b"',
        "it is forbidden to set cri type to Docker",
        'it is forbidden to set .spec.cri.containerd without .spec.cri.type="Containerd"',
        (
            "it is forbidden to create a NodeGroup resource with taints not specified in ModuleConfig "
            '"global" in the array .spec.settings.modules.placement.customTolerationKeys, add: k, k to '
            "customTolerationKeys"
        ),
        (
            'it is forbidden to set .spec.disruptions.approvalMode to "RollingUpdate" when spec.nodeType '
            'is not "CloudEphemeral"'
        ),
        ".spec.nodeTemplate.taints must contain only one taint with the same key and effect",
        ".spec.kubelet.resourceReservation must be enabled for .spec.kubelet.topologyManager to work",
        '.spec.disruptions.automatic.windows[0].from: invalid time format "24:00", expected HH:MM',
        '.spec.disruptions.automatic.windows[0].to: invalid time format "x", expected HH:MM',
        (
            '.spec.disruptions.automatic.windows[0].days: invalid day "Someday", expected one of '
            "Mon,Tue,Wed,Thu,Fri,Sat,Sun"
        ),
    ]


def test_everything_wrong_with_a_changed_group_in_the_order_of_the_checks() -> None:
    cluster = FakeCluster()
    cluster.configure("clusterType: Cloud\ncloud: {prefix: a-prefix-that-leaves-no-room-for-any-name}")
    cluster.add_node("w-1", **{**CUSTOM, **UNSUPPORTED})
    swap = {"swapBehavior": "LimitedSwap", "limitedSwap": {"size": "1G"}}
    static = {"mode": "Static", "static": {"memory": "1Gi"}}
    new = group(
        cri={"type": "ContainerdV2", "docker": {}},
        kubelet={
            "memorySwap": swap,
            "resourceReservation": static,
            "topologyManager": {"enabled": True},
        },
    )
    old = group(nodeType="CloudStatic", staticInstances={"labelSelector": {"matchLabels": {"a": "b"}}})
    assert messages(new, old, cluster) == [
        'it is forbidden to set .spec.cri.docker without .spec.cri.type="Docker"',
        ".spec.nodeType field is immutable",
        (
            ".spec.staticInstances.labelSelector can be added but cannot be modified or removed once set. "
            "To change it, create a new NodeGroup"
        ),
        (
            'for .spec.kubelet.topologyManager and .spec.kubelet.resourceReservation.mode == "Static", '
            ".spec.kubelet.resourceReservation.static.cpu must be specified"
        ),
        "CRI cannot be changed because some nodes are using custom configuration: w-1",
        (
            'It is forbidden for NodeGroup "worker" to use CRI ContainerdV2 because it contains nodes that '
            "do not support ContainerdV2. You can list them with: kubectl get node -l "
            "node.deckhouse.io/containerd-v2-unsupported,node.deckhouse.io/group=worker"
        ),
        (
            'memorySwap requires cgroup v2, but NodeGroup "worker" contains nodes where cgroup v2 is not '
            "supported"
        ),
    ]


def test_warnings_come_in_order_and_only_with_an_allowed_change() -> None:
    new = group("master", nodeType="CloudPermanent", cri={"type": "NotManaged"}, kubelet={"maxPods": 500})
    old = group("master", nodeType="CloudPermanent")
    assert warnings(new, old) == [
        ".spec.kubelet.maxPods (500) is too high: may lead to IP exhaustion",
        "it is disruptive to change cri.type in master node group for cluster with apiserver endpoints < 3",
    ]
    new["spec"]["nodeTemplate"] = {"taints": [{"key": "foreign"}]}
    assert "add: foreign to customTolerationKeys" in denial(new, old)


@pytest.mark.parametrize(
    ("unreadable", "new", "old", "message"),
    [
        (names.CLUSTER_CONFIGURATION_SECRET, group(), None, "failed to load cluster config: no access"),
        (
            names.PROVIDER_SECRET,
            group(cloudInstances={"zones": ["a"]}),
            None,
            "failed to load provider cluster config: no access",
        ),
        (
            "global",
            group(nodeTemplate={"taints": [{"key": "k"}]}),
            None,
            "failed to load custom toleration keys: no access",
        ),
        (
            "kubernetes",
            group("master", cri={"type": "NotManaged"}),
            group("master"),
            "failed to get kubernetes endpoints: no access",
        ),
        (
            "nodes",
            group(cri={"type": "NotManaged"}),
            group(),
            "failed to get nodes with custom containerd: no access",
        ),
        (
            "nodes",
            group(cri={"type": "ContainerdV2"}),
            group(cri={"type": "ContainerdV2"}),
            "failed to get nodes without containerd v2 support: no access",
        ),
        (
            "nodes",
            group(kubelet={"memorySwap": {"swapBehavior": "LimitedSwap"}}),
            group(),
            "failed to get nodes without cgroup v2 support: no access",
        ),
        (
            names.PROVIDER_SECRET,
            group(version=names.V1ALPHA2, nodeType="Hybrid"),
            None,
            (
                "failed to load provider config: failed to get secret "
                "kube-system/d8-provider-cluster-configuration: no access"
            ),
        ),
    ],
)
def test_state_that_cannot_be_read_is_named(unreadable: str, new: Json, old: Any, message: str) -> None:
    cluster = FakeCluster(error=Forbidden("no access"), unreadable=unreadable)
    status = ask(new, old, cluster)["status"]
    assert (status["code"], status["message"]) == (500, message)


def test_the_prefix_in_the_global_settings_matters_to_new_groups_of_cloud_clusters_only() -> None:
    cluster = FakeCluster(error=Forbidden("no access"), unreadable="global")
    assert warnings(group(), cluster=cluster) == []
    cluster.configure("clusterType: Cloud")
    assert warnings(group(), group(), cluster) == []
    status = ask(group(), cluster=cluster)["status"]
    assert (status["code"], status["message"]) == (500, "failed to load cluster config: no access")


@pytest.mark.parametrize("version", [names.V1ALPHA1, names.V1ALPHA2])
def test_old_versions_are_judged_in_their_v1_form(version: str) -> None:
    old = group(version=version, nodeType="Hybrid")
    assert warnings(group(version=version, nodeType="Hybrid"), group(nodeType="CloudStatic")) == []
    assert denial(old, group(nodeType="CloudPermanent")) == ".spec.nodeType field is immutable"
    cluster = FakeCluster()
    listed = {names.PROVIDER_CONFIGURATION_KEY: b"nodeGroups: [{name: worker}]"}
    cluster.add_secret(names.PROVIDER_SECRET, **listed)
    assert warnings(old, group(nodeType="CloudPermanent"), cluster) == []


def test_docker_settings_of_v1alpha1_are_refused_as_docker() -> None:
    assert denial(group(version=names.V1ALPHA1, docker={"manage": True})) == DOCKER


def test_a_remembered_node_type_counts_before_the_provider_configuration() -> None:
    memory = {names.V1: [{"path": "/spec/nodeType", "value": "CloudPermanent", "was": "Hybrid"}]}
    new = group(version=names.V1ALPHA2, nodeType="Hybrid")
    new["metadata"]["annotations"] = {names.CONVERSION_DATA: json.dumps(memory)}
    cluster = FakeCluster()
    assert warnings(new, group(nodeType="CloudPermanent"), cluster) == []
    assert names.PROVIDER_SECRET not in cluster.reads


def test_an_absent_and_an_empty_node_type_are_the_same() -> None:
    new, old = group(), group(nodeType="")
    del new["spec"]["nodeType"]
    assert warnings(new, old) == []


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
@pytest.mark.parametrize("simple", [True, False])
def test_other_operations_are_none_of_our_business(operation: str, simple: bool) -> None:
    assert ask(None, group(cri={"type": "Docker"}), simple=simple, operation=operation)["allowed"] is True


def test_malformed_cluster_configuration_fails_every_request() -> None:
    cluster = FakeCluster()
    for text in ("a: [", "- a", "text"):
        cluster.configure(text)
        status = ask(group(), cluster=cluster)["status"]
        assert status["code"] == 500
        assert status["message"].startswith("failed to load cluster config: ")


def test_read_errors_say_what_was_read() -> None:
    status = ask(group(), cluster=FakeCluster(error=Forbidden("no access")))["status"]
    assert (status["code"], status["message"]) == (500, "failed to load cluster config: no access")


def test_state_nobody_needs_is_not_read() -> None:
    cluster = FakeCluster()
    warnings(group(), cluster=cluster)
    assert cluster.reads == [names.CLUSTER_CONFIGURATION_SECRET]
    cluster.configure("clusterType: Cloud")
    warnings(group(), cluster=cluster)
    assert cluster.reads[1:] == [names.CLUSTER_CONFIGURATION_SECRET, "global"]
    warnings(group(), group(), cluster)
    assert cluster.reads[3:] == [names.CLUSTER_CONFIGURATION_SECRET], "only new groups have limited names"


@pytest.mark.parametrize(
    "new", [None, 7, {}, {**group(), "kind": "Pod"}, {**group(), "spec": []}, group(nodeType=7)]
)
@pytest.mark.parametrize("simple", [True, False])
def test_objects_that_cannot_be_read_are_bad_requests(new: Any, simple: bool) -> None:
    response = ask(new, simple=simple)
    assert response["allowed"] is False
    assert response["status"]["code"] == 400


def test_a_broken_provider_secret_only_concerns_old_hybrid_groups() -> None:
    cluster = FakeCluster()
    cluster.add_secret(names.PROVIDER_SECRET, **{names.PROVIDER_CONFIGURATION_KEY: b"- broken"})
    assert warnings(group(version=names.V1ALPHA1), cluster=cluster) == []
    status = ask(group(version=names.V1ALPHA1, nodeType="Hybrid"), cluster=cluster)["status"]
    assert status["code"] == 500
