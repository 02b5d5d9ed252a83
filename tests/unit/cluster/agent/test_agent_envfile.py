"""Variables from files of a volume."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.cluster.agent.environment.file import parse_variables, read_variables
from quarterdeck.cluster.agent.environment.variable import ContainerConfigError


def test_lines_comments_and_quoted_values() -> None:
    text = "# made by init\n\nA=1\nB=x=y z\nC=\nD='one\n two'\nE='quoted # here'\n"
    assert parse_variables(text) == {"A": "1", "B": "x=y z", "C": "", "D": "one\n two", "E": "quoted # here"}


@pytest.mark.parametrize("text", ["no sign", "1A=x", "A='open"])
def test_what_is_no_variable_is_told(text: str) -> None:
    with pytest.raises(ContainerConfigError):
        parse_variables(text)


def test_files_are_read_inside_their_volume_only(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (tmp_path / "outside").write_text("A=1")
    (volume / "link").symlink_to(tmp_path / "outside")
    (volume / "env").write_text("A=1")
    assert read_variables(volume, "env") == {"A": "1"}
    assert read_variables(volume, "missing") == {}
    for path in ("link", "../outside"):
        with pytest.raises(ContainerConfigError, match="leads out"):
            read_variables(volume, path)
