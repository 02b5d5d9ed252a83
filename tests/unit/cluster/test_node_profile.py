"""Which simulated nodes a profile asks for, and where they are."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time
from quarterdeck.cluster.node.profile import NodeSettings, read_profile
from quarterdeck.cluster.node.registration import make_node
from quarterdeck.errors import ConfigError

ZONE = "topology.kubernetes.io/zone"
RACK = "quarterdeck.dev/rack"


def pools(**pool: Any) -> NodeSettings:
    document = {"nodes": [{"name": "gpu", "count": 5, **pool}]}
    return NodeSettings(count=1, pools=read_profile(document))


def test_nodes_are_dealt_out_to_zones_and_racks_in_blocks() -> None:
    planned = list(pools(zones=["a", "b"], racks=2).planned())
    assert [each.name for each in planned] == ["node-0", "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    assert [each.number for each in planned] == list(range(6))
    places = [(each.labels[ZONE], each.labels[RACK]) for each in planned[1:]]
    assert places == [
        ("a", "a-rack-0"),
        ("a", "a-rack-0"),
        ("a", "a-rack-1"),
        ("b", "b-rack-0"),
        ("b", "b-rack-1"),
    ]


def test_racks_without_zones_and_under_another_label() -> None:
    planned = list(pools(racks=5, rackLabel="example.com/rack").planned())
    assert [each.labels["example.com/rack"] for each in planned[1:]] == [f"gpu-rack-{i}" for i in range(5)]


def test_a_node_of_a_pool_has_its_capacity_labels_and_taints() -> None:
    settings = pools(
        capacity={"nvidia.com/gpu": 8},
        labels={"a": "b"},
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        region="west",
    )
    node = make_node(list(settings.planned())[1], Time("2024-01-01T00:00:00Z"))
    assert str(node.status.allocatable["nvidia.com/gpu"]) == "8"
    assert str(node.status.allocatable["cpu"]) == "32"
    assert node.metadata.labels["a"] == "b"
    assert node.metadata.labels["topology.kubernetes.io/region"] == "west"
    assert [(each.key, each.effect) for each in node.spec.taints] == [("gpu", "NoSchedule")]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"nodes": [{"name": "a"}]}, "the field count is missing"),
        ({"nodes": [{"name": "a", "count": 1, "zone": "x"}]}, "unknown field zone"),
        ({"nodes": [{"name": "a", "count": -1}]}, "must not be negative"),
        (
            {"nodes": [{"name": "a", "count": 1}, {"name": "a", "count": 1}]},
            "a is there twice",
        ),
        ({"nodes": [{"name": "a", "count": 1, "capacity": {"cpu": "many"}}]}, "'many' is no quantity"),
        ([], "must be a mapping, not a list"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(document: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_profile(document)
