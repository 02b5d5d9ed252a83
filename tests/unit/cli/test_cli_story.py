"""Stories: how they are read, what their commands do, and when a step has come to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Node
from quarterdeck.cli.demo.command import _story
from quarterdeck.cli.error import CommandError
from quarterdeck.cli.story.command import Kubectl
from quarterdeck.cli.story.script import Expectation, Finding, Step, filled_in, read_story, value_at
from quarterdeck.cli.story.table import render_table
from quarterdeck.cli.story.telling import Teller
from quarterdeck.testing import TestCluster

pytestmark = pytest.mark.virtual_time

EXAMPLES = Path(__file__).parents[3] / "examples"
MAPS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: sails, labels: {example.com/zone: west}}
data: {number: "3"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "1-maps.yaml").write_text(MAPS)
    return tmp_path


async def test_commands_do_and_print_what_kubectl_would(cluster: TestCluster, folder: Path) -> None:
    kubectl = Kubectl(cluster.client, folder)
    assert await kubectl.run("kubectl apply --server-side -f 1-maps.yaml") == (
        "configmap/sails serverside-applied"
    )
    assert await kubectl.run("kubectl get configmaps -l example.com/zone=west -L example.com/zone") == (
        "  NAME    DATA   ZONE\n  sails   1      west\n"
    )
    patch = """kubectl patch configmap sails --type merge -p '{"data":{"number":"4"}}'"""
    assert await kubectl.run(patch) == "configmap/sails patched"
    assert (await cluster.client.get(ConfigMap, "sails", "default")).data == {"number": "4"}
    [found] = await kubectl.get("configmaps -A --field-selector metadata.name=sails")
    assert value_at(found, "metadata.labels[example.com/zone]") == "west"


async def test_nodes_are_annotated_and_tainted(cluster: TestCluster, folder: Path) -> None:
    kubectl = Kubectl(cluster.client, folder)
    await cluster.client.create(Node(metadata=ObjectMeta(name="n", labels={"zone": "a"})))
    await kubectl.run("kubectl annotate nodes -l zone=a example.com/down=true")
    assert await kubectl.run("kubectl taint nodes -l zone=a broken=yes:NoExecute") == "node/n tainted"
    node = await cluster.client.get(Node, "n")
    assert node.metadata.annotations["example.com/down"] == "true"
    assert [(each.key, each.value, each.effect) for each in node.spec.taints][-1:] == [
        ("broken", "yes", "NoExecute")
    ]
    await kubectl.run("kubectl annotate nodes -l zone=a example.com/down-")
    assert "example.com/down" not in (await cluster.client.get(Node, "n")).metadata.annotations


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("rm -rf /", "a story runs kubectl only"),
        ("kubectl drain node-0", "invalid choice: 'drain'"),
        ("kubectl apply -f nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("kubectl get configmaps --watch", "unrecognized arguments: --watch"),
    ],
)
async def test_a_command_that_a_story_does_not_know_is_refused(
    cluster: TestCluster, folder: Path, command: str, text: str
) -> None:
    with pytest.raises(CommandError, match=text):
        await Kubectl(cluster.client, folder).run(command)


async def test_a_step_finds_runs_waits_and_shows(cluster: TestCluster, folder: Path) -> None:
    teller = Teller(Kubectl(cluster.client, folder), patience=5.0)
    first = Step(
        title="One",
        why="Because.",
        run=("kubectl apply -f 1-maps.yaml",),
        until=(Expectation("configmaps -l example.com/zone=west", 1, {"data.number": "[1-3]"}),),
    )
    second = Step(
        title="Two",
        why="In $ZONE.",
        let={"ZONE": Finding("configmaps", "metadata.labels[example.com/zone]")},
        show=("kubectl get configmaps -l example.com/zone=$ZONE",),
    )
    assert [text async for text in teller.take(first)] == [
        "One",
        "Because.",
        "\n$ kubectl apply -f 1-maps.yaml\n  configmap/sails serverside-applied",
    ]
    assert [text async for text in teller.take(second)] == [
        "Two",
        "In west.",
        "\n$ kubectl get configmaps -l example.com/zone=west\n  NAME    DATA\n  sails   1",
    ]


async def test_a_step_without_an_end_says_what_is_missing(cluster: TestCluster, folder: Path) -> None:
    step = Step(title="Never", why="", until=(Expectation("nodes", 2, {"spec.podCIDR": "10.*"}),))
    with pytest.raises(
        CommandError, match=r"Never: after 5 seconds there are 0 of 2 nodes with spec.podCIDR=10.\*"
    ):
        async for _ in Teller(Kubectl(cluster.client, folder), patience=5.0).take(step):
            pass


def test_values_and_variables() -> None:
    document = {"a": {"b/c": {"d": 1}}, "off": None, "many": ["x", "y"]}
    assert value_at(document, "a[b/c].d") == "1"
    assert value_at(document, "many[1]") == "y"
    assert value_at(document, "many[2]") == ""
    assert value_at(document, "a.missing.d") == value_at(document, "off") == ""
    assert filled_in("$ZONE and $OTHER", {"ZONE": "a"}) == "a and $OTHER"


def test_a_file_that_is_no_story_is_named(tmp_path: Path) -> None:
    (tmp_path / "story.yaml").write_text("title: x\nsteps: [{title: a, why: b, unitl: []}]")
    with pytest.raises(CommandError, match=r"story.yaml: steps\[0\]: unknown field unitl"):
        read_story(tmp_path)


def test_the_story_is_told_if_its_operators_run() -> None:
    every = ["grove", "ipam", "kai", "nodegroup", "trainer"]
    assert _story(EXAMPLES, every) is not None
    assert _story(EXAMPLES, every[1:]) is None
    assert _story(EXAMPLES / "ipam", every) is None


def test_wide_tables_leave_out_what_says_nothing_and_long_cells_end_at_their_first_line() -> None:
    columns = [{"name": "Name"}, {"name": "Gate", "priority": 1}, {"name": "Text", "priority": 1}]
    table = {"columnDefinitions": columns, "rows": [{"cells": ["a", None, "one\ntwo"]}]}
    assert render_table(table, wide=True) == "  NAME   TEXT\n  a      one...\n"
    assert render_table(table) == "  NAME\n  a\n"
