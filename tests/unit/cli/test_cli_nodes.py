"""The simulated nodes a command is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.nodes.command import beside
from quarterdeck.cli.nodes.option import add_node_arguments, node_settings
from quarterdeck.cluster.node.profile import NodeSettings, read_profile


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_node_arguments(parser)
    return parser.parse_args(arguments)


def test_there_are_no_nodes_unless_asked_for() -> None:
    assert node_settings(asked()).count == 0


def test_capacity_is_added_to_what_is_usual() -> None:
    settings = node_settings(asked("--nodes", "3", "--node-capacity", "cpu=64,nvidia.com/gpu=8"))
    assert settings.count == 3
    assert settings.capacity == {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}


@pytest.mark.parametrize("capacity", ["cpu", "=1", "cpu=many", "cpu=-1"])
def test_amounts_that_make_no_sense_are_refused(capacity: str) -> None:
    with pytest.raises(CommandError, match="is not NAME=AMOUNT"):
        node_settings(asked("--nodes", "1", "--node-capacity", capacity))


def test_there_is_no_negative_number_of_nodes() -> None:
    with pytest.raises(CommandError, match="must not be negative"):
        node_settings(asked("--nodes", "-1"))


def test_a_profile_brings_more_nodes(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("nodes:\n- {name: gpu, count: 2}\n")
    settings = node_settings(asked("--nodes", "1", "--node-profile", str(file)))
    assert [each.name for each in settings.planned()] == ["node-0", "gpu-0", "gpu-1"]


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("nodes: 3\n")
    with pytest.raises(CommandError, match="--node-profile"):
        node_settings(asked("--node-profile", str(file)))
    with pytest.raises(CommandError, match="No such file"):
        node_settings(asked("--node-profile", str(tmp_path / "none")))


def test_nodes_that_are_added_get_free_names_and_numbers() -> None:
    wanted = NodeSettings(count=2, pools=read_profile({"nodes": [{"name": "gpu", "count": 1}]}))
    found = beside(wanted, ["node-0", "node-2"], 4)
    assert [(each.name, each.number) for each in found] == [("node-1", 5), ("node-3", 6), ("gpu-0", 7)]
    with pytest.raises(CommandError, match="gpu-0 is there already"):
        beside(wanted, ["gpu-0"], 0)
