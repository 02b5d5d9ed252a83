"""The simulated nodes a command is asked for."""

from __future__ import annotations

import argparse

import pytest

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.nodes import add_node_arguments, node_settings


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
        node_settings(asked("--node-capacity", capacity))


def test_there_is_no_negative_number_of_nodes() -> None:
    with pytest.raises(CommandError, match="must not be negative"):
        node_settings(asked("--nodes", "-1"))
