"""The rows of the page, from objects as they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.dashboard import section
from quarterdeck.dashboard.board import SOURCES
from quarterdeck.health.field import key_of

Json = dict[str, Any]
_WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}


def digests(**kinds: Sequence[Json]) -> Mapping[str, Mapping[str, Json]]:
    return {
        source.name: {key_of(each): source.digest(each) for each in kinds.get(source.name, ())}
        for source in SOURCES
    }


def pod(name: str, *, group: str = "", node: str = "", gpus: int = 0, **rest: Any) -> Json:
    annotations = {"pod-group-name": group} if group else {}
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "500m"} if gpus else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "annotations": annotations,
            **rest.get("metadata", {}),
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": rest.get("status", {"phase": "Running"} if node else {"phase": "Pending", **_WAITS}),
    }


def node(name: str, gpus: int, **labels: str) -> Json:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "8"}, "conditions": [ready]},
    }


def test_nodes_are_grouped_by_the_topology_with_the_most_levels() -> None:
    def topology(name: str, *labels: str) -> Json:
        return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": each} for each in labels]}}

    zone, rack, host = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
    rows = section.nodes(
        digests(
            nodes=[node("one", 8, **{zone: "a", rack: "r1"})],
            topologies=[topology("coarse", zone, host), topology("fine", zone, rack, host)],
        )
    )
    assert rows["one"]["domain"] == ["a", "r1"]


def test_a_node_shows_who_has_its_gpus() -> None:
    rows = section.nodes(
        digests(
            nodes=[node("one", 8, **{"example.com/rack": "r1"})],
            topologies=[
                {
                    "metadata": {"name": "t"},
                    "spec": {
                        "levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
                    },
                }
            ],
            pods=[
                pod("b", group="gang", node="one", gpus=4),
                pod("a", group="gang", node="one", gpus=2),
                pod("done", group="gang", node="one", gpus=8, status={"phase": "Succeeded"}),
                pod("elsewhere", node="two", gpus=1),
            ],
        )
    )
    assert rows["one"]["guests"] == [
        {"gang": "team/gang", "pod": "a", "gpus": 2},
        {"gang": "team/gang", "pod": "b", "gpus": 4},
    ]
    assert rows["one"]["domain"] == ["r1"]
    assert rows["one"]["cpu"] == [1.0, 8]


def test_a_gang_waits_in_the_words_of_the_scheduler() -> None:
    group = {
        "metadata": {
            "name": "gang",
            "namespace": "team",
            "ownerReferences": [{"kind": "JobSet", "name": "train"}],
        },
        "spec": {
            "queue": "vision",
            "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}],
        },
        "status": {
            "schedulingConditions": [
                {"status": "True", "message": "short", "reasons": [{"message": "no rack has room"}]},
            ]
        },
    }
    waiting = [pod("a", group="gang", gpus=8), pod("b", group="gang", gpus=8)]
    row = section.gangs(digests(podgroups=[group], pods=waiting))["team/gang"]
    assert (row["state"], row["waiting"], row["minimum"], row["gpus"]) == ("waiting", 2, 3, 16)
    assert row["why"] == ["no rack has room"]
    assert (row["queue"], row["owner"]) == ("vision", "JobSet train")
    partly = section.gangs(digests(podgroups=[group], pods=[waiting[0], pod("c", group="gang", node="one")]))
    assert partly["team/gang"]["state"] == "partly"
    running = section.gangs(digests(podgroups=[group], pods=[pod("c", group="gang", node="one")]))
    assert (running["team/gang"]["state"], running["team/gang"]["why"]) == ("running", [])


def test_pods_without_a_group_are_counted_to_their_controller() -> None:
    owner = [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]
    rows = section.gangs(digests(pods=[pod("web-1-a", metadata={"ownerReferences": owner})]))
    assert rows["team/web-1"]["why"] == ["no room"]


def test_queues_know_their_place_and_what_is_fair() -> None:
    def queue(name: str, parent: str = "") -> Json:
        return {
            "metadata": {"name": name},
            "spec": {
                "parentQueue": parent,
                "resources": {"gpu": {"quota": 8, "limit": -1}, "memory": {"quota": 1}},
            },
            "status": {"allocated": {"nvidia.com/gpu": "4"}},
        }

    rows = section.queues(digests(queues=[queue("root"), queue("leaf", "root")]), {"leaf": 6.0})
    assert [rows[name]["depth"] for name in ("root", "leaf")] == [0, 1]
    assert rows["leaf"]["gpu"] == {"quota": 8, "limit": -1, "weight": 0, "allocated": 4, "requested": 0}
    assert rows["leaf"]["memory"]["quota"] == 1e6
    assert (rows["root"]["fairShare"], rows["leaf"]["fairShare"]) == (None, 6.0)


def test_a_training_shows_its_report_and_its_pods() -> None:
    job = {
        "metadata": {"name": "tune", "namespace": "team"},
        "spec": {"runtimeRef": {"name": "torch"}},
        "status": {
            "trainerStatus": {"progressPercentage": 40, "metrics": [{"name": "loss", "value": "0.1"}]}
        },
    }
    labels = {"labels": {"jobset.sigs.k8s.io/jobset-name": "tune"}}
    row = section.trainings(digests(trainjobs=[job], pods=[pod("tune-0", node="one", metadata=labels)]))[
        "team/tune"
    ]
    assert (row["state"], row["progress"], row["metrics"]) == ("Running", 40, [["loss", "0.1"]])
    assert [each["name"] for each in row["pods"]] == ["tune-0"]
    waiting = section.trainings(digests(trainjobs=[job], pods=[pod("tune-0", metadata=labels)]))
    assert waiting["team/tune"]["state"] == "Waiting"


def test_roles_start_stage_by_stage() -> None:
    def order(kind: str, **after: list[str]) -> list[list[str]]:
        return section.stages(
            {"order": kind, "roles": [{"name": name, "after": each} for name, each in after.items()]}
        )

    explicit = "CliqueStartupTypeExplicit"
    assert order(explicit, router=["a", "b"], a=["s"], b=["s"], s=[]) == [["s"], ["a", "b"], ["router"]]
    assert order(explicit, a=["b"], b=["a"], c=[]) == [["c"], ["a", "b"]]
    assert order("CliqueStartupTypeInOrder", a=[], b=[]) == [["a"], ["b"]]
    assert order("", a=[], b=[]) == [["a", "b"]]


def test_blocks_of_a_pool_are_drawn_unless_they_are_outside() -> None:
    rows = section.addresses(
        digests(
            pools=[{"metadata": {"name": "p", "namespace": "team"}, "spec": {"cidr": "10.0.0.0/16"}}],
            subnets=[
                {
                    "metadata": {"name": name, "namespace": "team"},
                    "spec": {"poolRef": "p", "cidr": cidr, "clusterID": name},
                }
                for name, cidr in (("a", "10.0.0.0/17"), ("b", "10.9.0.0/24"))
            ],
        )
    )
    assert [block["holder"] for block in rows["team/p"]["blocks"]] == ["a"]
    assert rows["team/p"]["used"] == 0.5


def test_objects_that_say_nothing_are_shown_all_the_same() -> None:
    bare = {"metadata": {"name": "x", "namespace": "n"}}
    found = digests(**{source.name: [bare] for source in SOURCES})
    for make in (section.nodes, section.gangs, section.trainings, section.inference, section.addresses):
        assert make(found)
    assert section.events(found)
    assert section.node_groups(found)
