"""Both validations, through the admission endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from clusterfake import FakeCluster

from quarterdeck.errors import Forbidden
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, policy_webhook, simple_webhook
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.runtime.webhook.http import Request, Response

Json = dict[str, Any]
EPHEMERAL = {
    "nodeType": "CloudEphemeral",
    "cloudInstances": {
        "minPerZone": 1,
        "maxPerZone": 3,
        "classReference": {"kind": "AWSInstanceClass", "name": "worker"},
    },
}
DOCKER = "it is forbidden to set cri type to Docker"
UNSUPPORTED = {names.GROUP_LABEL: "worker", names.CONTAINERD_V2_UNSUPPORTED_LABEL: ""}
CUSTOM = {names.GROUP_LABEL: "worker", names.CONTAINERD_CONFIG_LABEL: "custom"}


def group(name: str = "worker", version: str = names.V1, **spec: Any) -> Json:
    document: Json = {"apiVersion": version, "kind": names.KIND, "metadata": {"name": name}}
    return {**document, "spec": {"nodeType": "Static", **spec}}


def ask(
    new: Any,
    old: Any = None,
    cluster: FakeCluster | None = None,
    *,
    simple: bool = False,
    operation: str = "",
) -> Json:
    reader = ClusterReader(cluster or FakeCluster())
    endpoint = AdmissionEndpoint(simple_webhook(reader) if simple else policy_webhook(reader))
    request = {
        "uid": "u-1",
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "name": "worker",
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review).encode()
    headers = ((b"content-type", b"application/json"),)

    async def answer() -> Response:
        found = endpoint.handle(Request("POST", "/", headers=headers, body=body))
        return found if isinstance(found, Response) else await found

    response: Json = json.loads(asyncio.run(answer()).body)["response"]
    assert response["uid"] == "u-1"
    return response


def denial(*args: Any, **kwargs: Any) -> str:
    response = ask(*args, **kwargs)
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert response["status"]["reason"] == "Forbidden"
    assert "warnings" not in response
    message: str = response["status"]["message"]
    return message


def warnings(*args: Any, **kwargs: Any) -> list[str]:
    response = ask(*args, **kwargs)
    assert response["allowed"] is True, response
    found: list[str] = response.get("warnings", [])
    return found


# -- policy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "is_allowed"), [(26, True), (27, False)])
def test_1_prefix_and_name_must_leave_room_for_hashes(length: int, is_allowed: bool) -> None:
    cluster = FakeCluster()
    cluster.configure("clusterType: Cloud\ncloud: {prefix: fifteen-chars-x}")
    assert ask(group("a" * length), cluster=cluster)["allowed"] is is_allowed
    assert ask(group("a" * length), group("a" * length), cluster)["allowed"] is True


def test_1_the_prefix_of_the_global_settings_wins_and_double_base64_is_decoded() -> None:
    cluster = FakeCluster()
    cluster.configure("Y2x1c3RlclR5cGU6IENsb3VkCmNsb3VkOgogIHByZWZpeDogYWJjCg==")
    assert denial(group("a" * 39), cluster=cluster).endswith(
        "max nodegroup name length for this cluster is 38"
    )
    cluster.set_global({"prefix": "abcdef"})
    assert denial(group("a" * 39), cluster=cluster).endswith(
        "max nodegroup name length for this cluster is 35"
    )


def test_2_absent_bounds_count_as_zero() -> None:
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
def test_3_too_many_pods_for_the_subnet_are_a_warning(prefix: str, pods: int, is_warned: bool) -> None:
    cluster = FakeCluster()
    cluster.configure(f"podSubnetNodeCIDRPrefix: {prefix}")
    found = warnings(group(kubelet={"maxPods": pods}), cluster=cluster)
    text = f".spec.kubelet.maxPods ({pods}) is too high: may lead to IP exhaustion"
    assert found == ([text] if is_warned else [])


def test_4_zones_must_be_known_if_any_are() -> None:
    cluster = FakeCluster()
    cluster.set_zones(b'{"zones": ["a", "b"]}')
    zoned = group(
        **{**EPHEMERAL, "cloudInstances": {**EPHEMERAL["cloudInstances"], "zones": ["a", "A", "c"]}}
    )
    assert denial(zoned, cluster=cluster) == 'unknown zone "A"'
    cluster.set_zones(b"{}")
    assert warnings(zoned, cluster=cluster) == []


@pytest.mark.parametrize("content", [b"not json", b"[]", b'{"zones": 7}', b'{"zones": [7]}'])
def test_4_malformed_discovery_data_is_an_error_only_where_zones_are_set(content: bytes) -> None:
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


def test_5_docker_is_refused_even_where_it_is_already() -> None:
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
def test_5b_settings_of_another_runtime_are_refused(kind: str, section: str, owner: str) -> None:
    message = f'it is forbidden to set .spec.cri.{section} without .spec.cri.type="{owner}"'
    assert denial(group(cri={"type": kind, section: {}})) == message
    assert warnings(group(cri={section: {}})) == []


@pytest.mark.parametrize(("endpoints", "is_warned"), [(0, True), (2, True), (3, False)])
def test_6_changing_the_runtime_of_masters_warns_below_three_endpoints(
    endpoints: int, is_warned: bool
) -> None:
    cluster = FakeCluster()
    cluster.set_endpoints(endpoints)
    new = group("master", nodeType="CloudPermanent", cri={"type": "ContainerdV2"})
    old = group("master", nodeType="CloudPermanent")
    assert bool(warnings(new, old, cluster)) is is_warned
    assert warnings(new, cluster=cluster) == []


def test_7_foreign_taints_are_listed_in_order_one_per_taint() -> None:
    cluster = FakeCluster()
    cluster.set_global({"modules": {"placement": {"customTolerationKeys": ["known", 7]}}})
    taints = [{"key": key} for key in ("z", "known", "dedicated", "a", "z")]
    message = denial(group(nodeTemplate={"taints": taints}), cluster=cluster)
    assert message.endswith(".customTolerationKeys, add: z, a, z to customTolerationKeys")


@pytest.mark.parametrize(
    "settings", [{}, {"modules": 7}, {"modules": {"placement": {"customTolerationKeys": "z"}}}]
)
def test_7_wrong_types_in_the_global_settings_mean_no_keys(settings: Any) -> None:
    cluster = FakeCluster()
    cluster.set_global(settings)
    assert "add: z to" in denial(group(nodeTemplate={"taints": [{"key": "z"}]}), cluster=cluster)


def test_8_rolling_updates_are_for_ephemeral_groups_whatever_the_version() -> None:
    rolling = {"approvalMode": "RollingUpdate"}
    assert 'is not "CloudEphemeral"' in denial(group(nodeType="CloudPermanent", disruptions=rolling))
    assert warnings(group(**EPHEMERAL, disruptions=rolling)) == []
    old = group(version=names.V1ALPHA2, **{**EPHEMERAL, "nodeType": "Cloud"}, disruptions=rolling)
    assert warnings(old) == []


def test_9_the_node_type_is_immutable() -> None:
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
def test_9a_a_selector_stays_what_it_is(new: Json, what: str) -> None:
    old = group(staticInstances={"labelSelector": {"matchLabels": {"a": "1"}}})
    assert f"cannot be {what} once set" in denial(group(**new), old)


def test_9a_an_empty_selector_may_be_filled() -> None:
    old = group(staticInstances={"labelSelector": {"matchExpressions": []}})
    new = group(staticInstances={"labelSelector": {"matchLabels": {"a": "1"}}})
    assert warnings(new, old) == []
    assert warnings(new, new) == []


def test_10_one_taint_per_key_and_effect() -> None:
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
def test_11_the_topology_manager_needs_reserved_cpu(manager: Json, reservation: Any, answer: str) -> None:
    kubelet = {"topologyManager": manager, "resourceReservation": reservation}
    if answer:
        assert answer in denial(group(kubelet=kubelet))
    else:
        assert warnings(group(kubelet=kubelet)) == []


def test_12_custom_nodes_block_a_change_of_the_effective_runtime() -> None:
    cluster = FakeCluster()
    cluster.add_node("w-2", **CUSTOM)
    cluster.add_node("w-1", **CUSTOM)
    assert denial(group(cri={"type": "NotManaged"}), group(), cluster) == (
        "CRI cannot be changed because some nodes are using custom configuration: w-1 w-2"
    )
    assert warnings(group(cri={"type": "Containerd"}), group(), cluster) == []
    assert warnings(group(cri={"type": "NotManaged"}), cluster=cluster) == []


def test_13_unsupported_nodes_block_containerd_v2_even_unchanged() -> None:
    cluster = FakeCluster()
    cluster.configure("defaultCRI: ContainerdV2")
    cluster.add_node("w-1", **UNSUPPORTED)
    cluster.add_node("x", **{**UNSUPPORTED, names.CONTAINERD_V2_UNSUPPORTED_LABEL: "no"})
    assert denial(group(), group(), cluster).endswith(
        "kubectl get node -l node.deckhouse.io/containerd-v2-unsupported,node.deckhouse.io/group=worker"
    )
    assert warnings(group(cri={"type": "Containerd"}), group(), cluster) == []


def test_14_limited_swap_needs_cgroup_v2_on_all_nodes() -> None:
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
def test_15_windows_are_checked_one_by_one(window: Json, message: str) -> None:
    good = {"from": "1:00", "to": "23:59"}
    rolling = {"approvalMode": "RollingUpdate", "rollingUpdate": {"windows": [good, window]}}
    assert (
        denial(group(**EPHEMERAL, disruptions=rolling))
        == f".spec.disruptions.rollingUpdate.windows[1]{message}"
    )


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
            "it is forbidden for this cluster to set (cluster prefix + node group name) longer than 42 symbols; "
            "max nodegroup name length for this cluster is 37"
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
            'it is forbidden to set .spec.disruptions.approvalMode to "RollingUpdate" when spec.nodeType is not '
            '"CloudEphemeral"'
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
    cluster.add_node("w-1", **CUSTOM, **UNSUPPORTED)
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
            'It is forbidden for NodeGroup "worker" to use CRI ContainerdV2 because it contains nodes that do '
            "not support ContainerdV2. You can list them with: kubectl get node -l "
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


# -- simple --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (group("a" * 43), "name must be no more than 42 characters, got 43"),
        (group("a."), "name must match pattern ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        (
            group(nodeType="Cloud"),
            "invalid nodeType: Cloud, must be one of: CloudEphemeral, CloudPermanent, CloudStatic, Static",
        ),
        (group(nodeType="CloudEphemeral"), "spec.cloudInstances is required for nodeType CloudEphemeral"),
        (
            group(nodeType="CloudEphemeral", cloudInstances={"minPerZone": 2}),
            "spec.cloudInstances.minPerZone (2) cannot be greater than maxPerZone (0)",
        ),
        (
            group(nodeType="CloudEphemeral", cloudInstances={}),
            "spec.cloudInstances.classReference.kind is required",
        ),
        (
            group(nodeType="CloudEphemeral", cloudInstances={"classReference": {"kind": "X", "name": "x"}}),
            "invalid classReference.kind: X",
        ),
        (group(cloudInstances={}), "spec.cloudInstances must not be set for nodeType Static"),
        (group(disruptions={"approvalMode": "Never"}), "invalid disruptions.approvalMode: Never"),
        (
            group(disruptions={"approvalMode": "RollingUpdate"}),
            "disruptions.approvalMode RollingUpdate is not available for Static nodes",
        ),
        (
            group(disruptions={"rollingUpdate": {"windows": [{"from": "1:00", "to": "2"}]}}),
            "invalid rollingUpdate window: invalid 'to' time format: 2, expected HH:MM",
        ),
        (
            group(disruptions={"automatic": {"windows": [{"from": "1:00", "to": "2:00", "days": ["X"]}]}}),
            "invalid automatic window: invalid day: X",
        ),
        (group(cri={"type": "Podman"}), "invalid cri.type: Podman"),
        (
            group(cri={"type": "Docker", "notManaged": {}, "containerdV2": {}}),
            "cri.containerdV2 can only be used with cri.type=ContainerdV2",
        ),
    ],
)
def test_simple_validation_answers_in_order(new: Json, message: str) -> None:
    assert denial(new, simple=True) == message


def test_simple_validation_checks_immutability_first_and_lets_deletes_pass() -> None:
    message = "spec.nodeType is immutable and cannot be changed"
    assert denial(group("a."), group("a.", **EPHEMERAL), simple=True) == message
    assert ask(None, group("a."), simple=True, operation="DELETE")["allowed"] is True
