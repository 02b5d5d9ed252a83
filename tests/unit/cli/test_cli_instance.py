"""Clusters that start and end at the same moment each have a name of their own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.instance.instance import Instance, find, forget, process_start, register, running

pytestmark = pytest.mark.real_time


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def alive(name: str) -> Instance:
    pid = os.getpid()
    return Instance(name=name, pid=pid, started=process_start(pid), url="https://x", kubeconfig={})


def killed(name: str) -> Instance:
    return Instance(name=name, pid=os.getpid(), started="another time", url="https://x", kubeconfig={})


def test_names_that_killed_clusters_left_are_given_once_each() -> None:
    """Many start at once, and each sees the files of those that were killed."""
    for _ in range(20):
        for _ in range(4):
            register("", killed)
        with ThreadPoolExecutor(8) as pool:
            names = list(pool.map(lambda _: register("", alive).name, range(8)))
        assert sorted(names) == sorted(each.name for each in running())
        assert len(set(names)) == 8
        for name in names:
            forget(name)


def test_a_name_that_is_taken_is_refused_with_the_way_out() -> None:
    register("mine", alive)
    with pytest.raises(CommandError, match="quarterdeck down mine"):
        register("mine", alive)
    assert find("mine").name == "mine"


def test_what_was_killed_is_not_running() -> None:
    register("gone", killed)
    assert running() == []
    with pytest.raises(CommandError, match="no cluster named gone"):
        find("gone")
