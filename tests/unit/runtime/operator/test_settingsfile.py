"""The file of settings: what it may say, and how a bad one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.operator.settingsfile import SettingsFile, read_settings


def test_without_a_file_nothing_is_set() -> None:
    assert read_settings(None) == SettingsFile(operators={}, node={})


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", SettingsFile()),
        ("operators: {tug: {knots: 3}}", SettingsFile(operators={"tug": {"knots": 3}})),
        ("node: {name: n}", SettingsFile(node={"name": "n"})),
    ],
)
def test_a_file_sets_operators_and_the_node(tmp_path: Path, text: str, settings: SettingsFile) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert read_settings(path) == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense: 1", "nonsense"),
        ("operators: [", "line 1, column 13"),
        ("operators: 3", "operators: must be a mapping, not an integer"),
        (None, "No such"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=rf"settings\.yaml: .*{problem}"):
        read_settings(path)
