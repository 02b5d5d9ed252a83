"""A context in somebody's kubeconfig: put in and taken out, and nothing else touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.instance.instance import Instance, left_behind, register
from quarterdeck.cli.instance.kubeconfigfile import ContextInFile, default_path, text_of
from quarterdeck.cluster.agent.shim.order import start_of

OURS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "quarterdeck", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "quarterdeck", "user": {"token": "t"}}],
    "contexts": [{"name": "quarterdeck", "context": {"cluster": "quarterdeck", "user": "quarterdeck"}}],
    "current-context": "quarterdeck",
}
THEIRS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod:6443"}}],
    "users": [{"name": "me", "user": {"exec": {"command": "login"}}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
    "current-context": "prod",
}


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def names(document: dict[str, Any], key: str) -> list[str]:
    return [entry["name"] for entry in document[key]]


def context_in(path: Path, name: str) -> ContextInFile:
    return ContextInFile(path, name, before=text_of(path))


def test_a_context_joins_those_of_others_and_becomes_current(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    context_in(path, "qd").add(OURS)
    merged = read(path)
    assert merged["current-context"] == "qd"
    assert names(merged, "contexts") == ["prod", "qd"]
    assert merged["contexts"][1]["context"] == {"cluster": "qd", "user": "qd"}
    assert merged["preferences"] == {"colors": True}


def test_taking_it_out_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    path.chmod(0o640)
    context = context_in(path, "quarterdeck")
    context.add(OURS)
    context.remove()
    assert read(path) == THEIRS
    assert path.stat().st_mode & 0o777 == 0o640


BY_HAND = """\
# of my own: keep this order
contexts:
- {name: prod, context: {cluster: prod, user: me}}
current-context: "prod"
clusters: [{name: prod, cluster: {server: https://prod:6443}}]
users: [{name: me, user: {token: t}}]""".replace("\n", "\r\n")


@pytest.mark.parametrize(
    "before", [BY_HAND, "", "{}", None], ids=["written by hand", "empty", "{}", "no file"]
)
@pytest.mark.parametrize("last", [0, 1])
def test_the_last_of_two_clusters_brings_back_every_byte(
    tmp_path: Path, before: str | None, last: int
) -> None:
    path = tmp_path / "config"
    if before is not None:
        path.write_bytes(before.encode())
    clusters = [ContextInFile(path, name, before=before) for name in ("quarterdeck", "quarterdeck-2")]
    for cluster in clusters:
        cluster.add(OURS)
    clusters[1 - last].remove()
    assert names(read(path), "contexts")[-1] == clusters[last].name
    clusters[last].remove()
    assert text_of(path) == before


def test_what_the_user_added_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(BY_HAND)
    context = context_in(path, "quarterdeck")
    context.add(OURS)
    both = read(path)
    path.write_text(yaml.safe_dump({**both, "users": [{"name": "new", "user": {}}, *both["users"]]}))
    context.remove()
    assert names(read(path), "users") == ["new", "me"]
    assert read(path)["current-context"] == "prod"


def test_a_context_the_user_chose_meanwhile_stays_current(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    context = context_in(path, "quarterdeck")
    context.add(OURS)
    path.write_text(yaml.safe_dump({**read(path), "current-context": "prod"}))
    context.remove()
    assert read(path)["current-context"] == "prod"


def test_a_file_made_for_the_cluster_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    context = context_in(path, "quarterdeck")
    context.add(OURS)
    assert path.stat().st_mode & 0o777 == 0o600
    context.remove()
    assert not path.exists()


def test_a_file_that_was_there_is_never_deleted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("")
    context = context_in(path, "quarterdeck")
    context.add(OURS)
    context.remove()
    assert path.exists()


@pytest.mark.parametrize("text", ["{", "- a\n- b\n", "clusters: [1]", "just words"])
def test_what_is_no_kubeconfig_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CommandError, match="config"):
        context_in(path, "quarterdeck").add(OURS)
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["config"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text(yaml.safe_dump(THEIRS))
    link.symlink_to(target)
    context_in(link, "quarterdeck").add(OURS)
    assert link.is_symlink()
    assert names(read(target), "contexts") == ["prod", "quarterdeck"]


def test_the_default_file_is_kubectls(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("")
    many = os.pathsep.join([str(tmp_path / "missing"), str(there)])
    assert default_path({"KUBECONFIG": many}) == there
    assert default_path({"KUBECONFIG": str(tmp_path / "missing")}) == tmp_path / "missing"
    assert default_path({"HOME": str(tmp_path)}) == tmp_path / ".kube" / "config"


def test_what_killed_clusters_left_behind_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "config"
    context_in(path, "quarterdeck").add(OURS)
    context_in(path, "mine").add(OURS)
    context_in(path, "quarterdeck-2").add(OURS, left_behind=lambda name: name == "quarterdeck")
    assert names(read(path), "contexts") == ["mine", "quarterdeck-2"]


def test_a_name_that_another_cluster_took_is_left_behind_in_this_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here, elsewhere = str(tmp_path / "here"), str(tmp_path / "elsewhere")

    def describe(name: str) -> Instance:
        return Instance(
            name=name,
            pid=os.getpid(),
            started=start_of(os.getpid()),
            url="https://127.0.0.1:1",
            kubeconfig={},
            context_file=elsewhere,
        )

    assert register("", describe).name == "quarterdeck"
    assert left_behind(here)("quarterdeck")
    assert not left_behind(elsewhere)("quarterdeck")
    assert not left_behind(here)("mine")
