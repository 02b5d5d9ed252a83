"""Control groups on folders that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.api import Quantity
from quarterdeck.cluster.agent import cgroup


def test_groups_are_removed_and_the_files_of_others_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cpu", "memory", "pids"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def never(_seconds: float) -> None:
        raise AssertionError("waited for a file to become a folder")

    monkeypatch.setattr("time.sleep", never)
    groups = cgroup.Cgroups("test")
    for made in groups.make("uid-main-0", {"memory": Quantity("1Mi")}):
        for file in Path(made).iterdir():  # where the kernel's go with their group
            file.unlink()
    (tmp_path / "memory/quarterdeck-test/memory.stat").write_text("")
    groups.remove("")
    assert [each.name for each in (tmp_path / "memory/quarterdeck-test").iterdir()] == ["memory.stat"]
    assert list((tmp_path / "pids/quarterdeck-test").iterdir()) == []
