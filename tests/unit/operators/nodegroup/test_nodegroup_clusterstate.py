"""Documents of other parts of Deckhouse: missing means default, malformed is an error, nothing is a crash."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.operators.nodegroup.logic.clusterstate import (
    ClusterConfiguration,
    StateError,
    cluster_configuration,
    known_zones,
    permanent_groups,
    toleration_keys,
)

MALFORMED = {
    "no YAML": b"a: [",
    "a list": b"- a",
    "a text": b"text",
    "a number": b"7",
    "tabs": b"a:\n\t- b",
    "no UTF-8": b"\xff\xfe\x00a",
    "control characters": b"a: \x00",
    "an impossible date": b"a: 2026-13-45",
    "an unknown tag": b"a: !!python/object:os.system x",
    "a dangling alias": b"a: *b",
    "a key that is no key": b"? {a: b}\n: c",
    "too deep": b"a: " + b"[" * 200_000,
    "too deep in blocks": b"- " * 200_000,
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(
    ("read", "prefix"),
    [
        (
            cluster_configuration,
            "failed to load cluster config: failed to parse cluster-configuration.yaml: ",
        ),
        (
            permanent_groups,
            "failed to load provider config: failed to parse cloud-provider-cluster-configuration.yaml: ",
        ),
    ],
)
def test_malformed_documents_are_errors_in_one_line(
    read: Callable[[bytes], Any], prefix: str, content: bytes
) -> None:
    with pytest.raises(StateError) as error:
        read(content)
    assert str(error.value).startswith(prefix)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"---\n", b"# nothing", b"null", b"{}", b"other: 1"])
def test_empty_documents_mean_defaults(content: bytes) -> None:
    assert cluster_configuration(content) == ClusterConfiguration()
    assert permanent_groups(content) == frozenset()


@pytest.mark.parametrize(
    ("content", "groups"),
    [
        (b"nodeGroups: null", set()),
        (b"nodeGroups: []", set()),
        (b"nodeGroups: [{name: a}, {name: a}, {}, {name: null}, {name: [b]}, {other: c}]", {"a"}),
        (b"kind: OpenStackClusterConfiguration\nnodeGroups:\n- name: front\n  replicas: 2\n", {"front"}),
        (b"nodeGroups: [{name: 7}]", {"7"}),
        (b"nodeGroups: [{name: first}]\n---\nnodeGroups: [{name: second}]", {"first"}),
    ],
)
def test_permanent_groups_are_those_with_a_name(content: bytes, groups: set[str]) -> None:
    assert permanent_groups(content) == groups


@pytest.mark.parametrize(
    "content", [b"nodeGroups: 7", b"nodeGroups: {a: b}", b"nodeGroups: [7]", b"nodeGroups: [[]]"]
)
def test_node_groups_of_another_shape_are_errors(content: bytes) -> None:
    with pytest.raises(StateError, match="nodeGroups"):
        permanent_groups(content)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("22", 22),
        ('"22"', 22),
        ('"0022"', 22),
        ("1", 1),
        ("32", 32),
        ("0", 24),
        ("33", 24),
        ("-5", 24),
        ("22.0", 24),
        ("null", 24),
        ('""', 24),
        ('"22x"', 24),
        ('"²²"', 24),
        ("[22]", 24),
        ("true", 24),
        ("9" * 400, 24),
        (f'"{"9" * 400}"', 24),
    ],
)
def test_the_prefix_of_pod_subnets_is_an_integer_from_1_to_32(text: str, length: int) -> None:
    assert cluster_configuration(f"podSubnetNodeCIDRPrefix: {text}".encode()).node_prefix == length


def test_the_configuration_of_a_cluster() -> None:
    text = b"clusterType: Cloud\ncloud: {prefix: prod, provider: AWS}\ndefaultCRI: ContainerdV2\n"
    wanted = ClusterConfiguration(cluster_type="Cloud", prefix="prod", default_cri="ContainerdV2")
    assert cluster_configuration(text) == wanted
    assert cluster_configuration(base64.b64encode(text)) == wanted, "some installers encode twice"
    assert cluster_configuration(base64.encodebytes(text)) == wanted, "in lines"
    odd = cluster_configuration(b"clusterType: [Cloud]\ncloud: none\ndefaultCRI: {}\nkubernetesVersion: 1.3")
    assert odd == ClusterConfiguration()


@pytest.mark.parametrize(
    ("text", "version"), [('"1.33"', "1.33"), ("Automatic", ""), ("1.33", ""), ('"1"', "")]
)
def test_only_a_quoted_version_is_one(text: str, version: str) -> None:
    assert cluster_configuration(f"kubernetesVersion: {text}".encode()).kubernetes_version == version


@pytest.mark.parametrize(
    ("own", "default", "effective"),
    [
        ({}, "", "Containerd"),
        ({}, "ContainerdV2", "ContainerdV2"),
        ({"cri": None}, "ContainerdV2", "ContainerdV2"),
        ({"cri": {"type": ""}}, "ContainerdV2", "ContainerdV2"),
        ({"cri": {"type": "NotManaged"}}, "ContainerdV2", "NotManaged"),
    ],
)
def test_the_effective_runtime_is_the_groups_the_clusters_or_containerd(
    own: dict[str, Any], default: str, effective: str
) -> None:
    assert ClusterConfiguration(default_cri=default).effective_cri(own) == effective


@pytest.mark.parametrize(
    ("content", "zones"),
    [
        (b"", ()),
        (b"null", ()),
        (b"{}", ()),
        (b'{"zones": null}', ()),
        (b'{"zones": []}', ()),
        (b'{"zones": ["a", "b"], "flavors": [1]}', ("a", "b")),
    ],
)
def test_zones_of_the_provider(content: bytes, zones: tuple[str, ...]) -> None:
    assert known_zones(content) == zones


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"zones": {}}', b'{"zones": [1]}', b"\xff", b"[" * 100_000]
)
def test_malformed_zones_are_errors(content: bytes) -> None:
    prefix = "failed to load provider cluster config: failed to parse cloud-provider-discovery-data.json: "
    with pytest.raises(StateError) as error:
        known_zones(content)
    assert str(error.value).startswith(prefix)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (["a", "b"], {"a", "b"}),
        (["a", 7, None], {"a"}),
        ("ab", set()),
        (None, set()),
        (7, set()),
        ({}, set()),
    ],
)
def test_toleration_keys_of_the_wrong_type_are_none(keys: Any, found: set[str]) -> None:
    assert toleration_keys({"modules": {"placement": {"customTolerationKeys": keys}}}) == found
