"""Clusters that start and end at the same moment each have a name of their own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.instance.instance import Instance, directory, find, forget, register, running
from quarterdeck.cli.instance.kubeconfigfile import ContextInFile
from quarterdeck.cli.main import main
from quarterdeck.cluster.agent.shim import order
from quarterdeck.cluster.agent.shim.order import start_of

pytestmark = pytest.mark.real_time


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def alive(name: str) -> Instance:
    pid = os.getpid()
    return Instance(name=name, pid=pid, started=start_of(pid), url="https://x", kubeconfig={})


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


def test_a_cluster_of_another_boot_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is now that of this very test, which must not be stopped in its place."""
    with monkeypatch.context() as earlier:
        earlier.setattr(order, "_boot", lambda: "an-earlier-boot")
        register("before", alive)
        assert [each.name for each in running()] == ["before"]
    assert running() == []


def test_of_a_killed_cluster_the_next_who_looks_puts_everything_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, private = tmp_path / "config", tmp_path / "quarterdeck-abc"
    mine = "# mine\napiVersion: v1\nkind: Config\ncontexts: []\ncurrent-context:   work  # at work\n"
    file.write_text(mine)
    (private / "nodes").mkdir(parents=True)
    entry = {
        "clusters": [{"name": "x", "cluster": {}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {}}],
    }
    ContextInFile(file, "gone", before=mine).add(entry)
    assert file.read_text() != mine
    sockets = str(private / "nodes")
    register(
        "gone",
        lambda name: msgspec.structs.replace(
            killed(name), context_file=str(file), context_before=mine, node_sockets=sockets
        ),
    )
    assert running() == []
    assert file.read_text() == mine
    assert not private.exists()
    assert capsys.readouterr().err == f"gone was killed; its context was taken out of {file}\n"
    assert not directory().exists()


def test_a_kubeconfig_that_cannot_be_put_back_yet_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text("not: [a kubeconfig")
    register("gone", lambda name: msgspec.structs.replace(killed(name), context_file=str(file)))
    for _ in range(2):
        assert running() == []
        assert "its context is left: " in capsys.readouterr().err
    file.unlink()
    assert running() == []
    assert capsys.readouterr().err == f"gone was killed; its context was taken out of {file}\n"


def test_nothing_is_left_when_the_last_cluster_has_ended() -> None:
    register("a", alive)
    register("b", alive)
    forget("a")
    assert directory().exists()
    forget("b")
    assert not directory().exists()


@pytest.mark.parametrize("name", ["../evil", "a/b", "UPPER", "-a", "a-", ".", "a" * 64])
def test_a_name_that_is_no_label_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["up", f"--name={name}"])
    assert "is no name" in capsys.readouterr().err


def test_state_goes_among_temporary_files_where_home_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert directory({"HOME": str(home)}) == home / ".local" / "state" / "quarterdeck"
    # root may write everywhere but on a file system that is mounted read-only
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != home)
    found = directory({"HOME": str(home)})
    assert found.parent == temporary
    found.symlink_to(home)
    with pytest.raises(CommandError, match="somebody else's: set XDG_STATE_HOME"):
        directory({"HOME": str(home)})
