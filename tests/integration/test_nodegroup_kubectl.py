"""NodeGroups under a stock kubectl, as a user of Deckhouse knows them.

The cluster is `quarterdeck up`; with ``-m kube`` the same is done on a real kube-apiserver, which calls
`quarterdeck run` over TLS.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.server import is_built
from parity.runner import Kubectl

from .nodegroupkit import CONVERSION_DATA, MIDDLE, OLD, Hand, embedded_cluster, real_cluster

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "nodegroup"
REAL = pytest.param(
    "real",
    marks=[
        pytest.mark.kube,
        pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
    ],
)


@pytest.fixture(scope="module", params=["up", REAL])
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    with embedded_cluster() if request.param == "up" else real_cluster() as found:
        yield found


@pytest.fixture
def hand(kubectl: Kubectl, kubeconfig: Path, tmp_path: Path) -> Iterator[Hand]:
    hand = Hand(kubectl, kubeconfig, tmp_path)
    yield hand
    hand("delete", "nodegroups", "--all", "--wait=false")


def example(name: str) -> Json:
    manifest: Json = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return manifest


def with_name(manifest: Json, name: str) -> Json:
    return {**copy.deepcopy(manifest), "metadata": {**manifest["metadata"], "name": name}}


def spec_of(hand: Hand, name: str, resource: str = "nodegroups") -> Json:
    spec: Json = hand.read(resource, name)["spec"]
    return spec


def test_a_group_is_read_in_every_version(hand: Hand) -> None:
    assert hand.apply(example("gpu")) == "nodegroup.deckhouse.io/gpu created\n"
    old = yaml.safe_load(hand("get", OLD, "gpu", "-o", "yaml"))
    assert old["apiVersion"] == "deckhouse.io/v1alpha1"
    assert old["spec"]["nodeType"] == "Cloud"
    assert old["spec"]["cri"] == {"type": "Containerd", "containerd": {"maxConcurrentDownloads": 5}}
    assert old["spec"]["kubelet"]["maxPods"] == 60
    assert not old["spec"].keys() & {"gpu", "update", "staticInstances"}
    assert not old["spec"]["kubelet"].keys() & {"resourceReservation", "topologyManager"}
    assert (
        '{"path":"/spec/gpu","value":{"sharing":"Exclusive"}}'
        in old["metadata"]["annotations"][CONVERSION_DATA]
    )
    listed = yaml.safe_load(hand("get", MIDDLE, "-o", "yaml"))["items"]
    assert [one["apiVersion"] for one in listed] == ["deckhouse.io/v1alpha2"]
    new = hand.read("nodegroups", "gpu")
    assert new["spec"]["gpu"] == {"sharing": "Exclusive"}
    assert CONVERSION_DATA not in new["metadata"]["annotations"]


def test_editing_an_old_version_changes_that_and_nothing_else(hand: Hand) -> None:
    hand.apply(example("gpu"))
    before = spec_of(hand, "gpu")
    edited = hand("edit", OLD, "gpu", editor="sed -i 's/maxPods: 60/maxPods: 77/'")
    assert edited == "nodegroup.deckhouse.io/gpu edited\n"
    after = hand.read("nodegroups", "gpu")
    assert after["spec"] == {**before, "kubelet": {**before["kubelet"], "maxPods": 77}}
    assert CONVERSION_DATA not in after["metadata"]["annotations"]
    hand("edit", MIDDLE, "gpu", editor="sed -i '/^  kubelet:/,/^  [a-z]/{/^  kubelet:/d;/^    /d}'")
    kubelet = spec_of(hand, "gpu").get("kubelet")
    assert kubelet == {
        "containerLogMaxFiles": 4,
        "containerLogMaxSize": "50Mi",
        "resourceReservation": {"mode": "Auto"},
    }, "what was removed comes back as the defaults of v1, not as it was"
    assert spec_of(hand, "gpu")["gpu"] == {"sharing": "Exclusive"}


def test_a_forbidden_edit_says_why_and_changes_nothing(hand: Hand) -> None:
    hand.apply(example("master"))
    done = hand.run("edit", OLD, "master", editor="sed -i 's/nodeType: Hybrid/nodeType: Static/'")
    assert done.returncode == 1
    assert "is immutable" in done.stderr, "both webhooks say so, in their own words"
    assert spec_of(hand, "master")["nodeType"] == "CloudPermanent"


def test_an_old_manifest_on_a_newer_group_changes_what_it_names_and_keeps_what_it_cannot(hand: Hand) -> None:
    hand.apply(example("gpu"))
    before = spec_of(hand, "gpu")
    old: Json = {
        "apiVersion": "deckhouse.io/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "gpu"},
        "spec": {
            "nodeType": "Cloud",
            "cloudInstances": {**example("gpu")["spec"]["cloudInstances"], "maxPerZone": 6},
            "cri": {"type": "Containerd", "containerd": {"maxConcurrentDownloads": 5}},
            "kubelet": {"maxPods": 80},
            "nodeTemplate": example("gpu")["spec"]["nodeTemplate"],
        },
    }
    assert hand.apply(old) == "nodegroup.deckhouse.io/gpu configured\n"
    after = spec_of(hand, "gpu")
    assert after["cloudInstances"]["maxPerZone"] == 6
    assert after["kubelet"]["maxPods"] == 80
    assert "disruptions" not in after, "the new manifest does not have them any more"
    assert after["cri"] == before["cri"], "Containerd of old versions is ContainerdV2 here"
    assert after["gpu"] == before["gpu"]
    assert after["kubelet"]["topologyManager"] == before["kubelet"]["topologyManager"]
    assert hand.apply(old) == "nodegroup.deckhouse.io/gpu unchanged\n"


def test_an_old_manifest_creates_a_group(hand: Hand) -> None:
    assert hand.apply(example("old-manifest")) == "nodegroup.deckhouse.io/legacy created\n"
    assert spec_of(hand, "legacy")["nodeType"] == "CloudEphemeral"
    assert spec_of(hand, "legacy", OLD)["kubernetesVersion"] == "1.33", "v1 has no such field, and keeps it"
    assert hand.apply(example("old-manifest")) == "nodegroup.deckhouse.io/legacy unchanged\n"


def test_server_side_apply_in_an_old_version_keeps_the_rest(hand: Hand) -> None:
    hand("apply", "--server-side", "-f", "-", manifest=example("gpu"))
    old = {
        "apiVersion": "deckhouse.io/v1alpha2",
        "kind": "NodeGroup",
        "metadata": {"name": "gpu"},
        "spec": {"nodeType": "Cloud", "kubelet": {"maxPods": 90}},
    }
    hand("apply", "--server-side", "--field-manager", "other", "--force-conflicts", "-f", "-", manifest=old)
    after = spec_of(hand, "gpu")
    assert after["kubelet"]["maxPods"] == 90
    assert after["gpu"] == {"sharing": "Exclusive"}
    assert after["cri"]["type"] == "ContainerdV2"


@pytest.mark.parametrize(
    ("version", "has_reservation"), [("v1", True), ("v1alpha2", False), ("v1alpha1", False)]
)
def test_explain_knows_the_fields_of_each_version(hand: Hand, version: str, has_reservation: bool) -> None:
    text = hand("explain", "nodegroup.spec.kubelet", f"--api-version=deckhouse.io/{version}")
    assert "Settings of the kubelet." in text
    assert "containerLogMaxFiles\t<integer>" in text
    assert ("resourceReservation" in text) is has_reservation
    enum = hand("explain", "nodegroup.spec.nodeType", f"--api-version=deckhouse.io/{version}")
    assert ("CloudPermanent" in enum) is (version == "v1")
    assert "Where nodes come from" in enum


def test_get_shows_the_columns_of_deckhouse(hand: Hand) -> None:
    hand.apply(example("master"))
    hand("wait", "nodegroup/master", "--for=jsonpath={.status.deckhouse.synced}=True", "--timeout=30s")
    shared = [
        *("NAME", "TYPE", "READY", "NODES", "UPTODATE", "INSTANCES"),
        *("DESIRED", "MIN", "MAX", "STANDBY", "STATUS", "AGE"),
    ]
    for words, columns in (
        (("nodegroups",), [*shared, "SYNCED"]),
        (("ng", "-o", "wide"), [*shared, "SYNCED", "OBSERVED", "PROCESSED"]),
        ((OLD,), shared),
        ((MIDDLE, "-o", "wide"), shared),
    ):
        header, row = hand("get", *words).splitlines()
        assert header.split() == columns
        assert row.split()[0] == "master"
    cells = hand("get", "ng").splitlines()[1].split()
    assert cells[:9] == ["master", "CloudPermanent", "0", "0", "0", "0", "0", "0", "0"]
    assert cells[-1] == "True"
    assert hand("get", OLD).splitlines()[1].split()[1] == "Hybrid"


def test_denials_and_warnings_are_shown_in_full(hand: Hand) -> None:
    docker = {**with_name(example("master"), "docker"), "apiVersion": "deckhouse.io/v1alpha2"}
    docker["spec"] = {"nodeType": "Static", "cri": {"type": "Docker"}}
    refused = hand.run("apply", "-f", "-", manifest=docker)
    assert refused.returncode == 1
    wanted = (
        'admission webhook "nodegroup-policy.deckhouse.io" denied the request: '
        "it is forbidden to set cri type to Docker"
    )
    assert wanted in refused.stderr
    crowded = with_name(example("master"), "crowded")
    crowded["spec"]["kubelet"] = {"maxPods": 500}
    done = hand.run("apply", "-f", "-", manifest=crowded)
    assert done.returncode == 0
    assert "Warning: .spec.kubelet.maxPods (500) is too high: may lead to IP exhaustion" in done.stderr
    changed = copy.deepcopy(crowded)
    changed["spec"]["nodeType"] = "CloudStatic"
    immutable = hand.run("apply", "-f", "-", manifest=changed)
    assert immutable.returncode == 1
    assert "immutable" in immutable.stderr


def test_state_of_the_cluster_is_followed(hand: Hand) -> None:
    zones = "cloud-provider-discovery-data.json"
    secret = ("secret", "d8-provider-cluster-configuration", "-n", "kube-system")
    hand("create", secret[0], "generic", *secret[1:], f"--from-literal={zones}=" + '{"zones": ["zone-a"]}')
    try:
        for _ in range(100):  # the operator learns of it a moment later
            refused = hand.run("apply", "--dry-run=server", "-f", "-", manifest=example("gpu"))
            if refused.returncode:
                break
        assert 'unknown zone "zone-b"' in refused.stderr
    finally:
        hand("delete", *secret)


def test_lists_of_many_groups_are_converted(hand: Hand) -> None:
    many = [with_name(example("master"), f"m-{number}") for number in range(20)]
    for number, one in enumerate(many):
        one["spec"]["update"] = {"maxConcurrent": number + 1}
    hand("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": many})
    listed = yaml.safe_load(hand("get", OLD, "-o", "yaml"))["items"]
    assert {one["spec"]["nodeType"] for one in listed} == {"Hybrid"}
    assert len(listed) == 20
    hand("label", OLD, "--all", "team=ml")
    new = yaml.safe_load(hand("get", "nodegroups", "-l", "team=ml", "-o", "yaml"))["items"]
    wanted = {one["metadata"]["name"]: one["spec"]["update"] for one in many}
    assert {one["metadata"]["name"]: one["spec"]["update"] for one in new} == wanted
    assert {one["spec"]["nodeType"] for one in new} == {"CloudPermanent"}
