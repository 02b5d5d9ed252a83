"""Planted bugs are found, and an operator without one passes, in this process and as a program."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from quarterdeck.api import crd
from quarterdeck.cli.main import main
from quarterdeck.testing.torture import (
    Pace,
    Report,
    Scene,
    as_text,
    changes_of,
    manager_subject,
    schema_of,
    torture,
    usual_workload,
)

from .shop import BUGS, SAMPLE, Shop, equip

WORKLOAD = usual_workload(SAMPLE, [{"spec": {"replicas": 3}}])
FOUND_BY = {
    "missed-watch": ("delete-child", "state"),
    "no-precondition": ("occupy", "foreign"),
    "name-collision": ("neighbour", "state"),
    "no-finalizer": ("undisturbed", "orphan"),
    "lying-status": ("starve", "status"),
    "hot-loop": ("undisturbed", "settle"),
    "orphan": ("undisturbed", "orphan"),
    "missing-child": ("delete-child", "state"),
    "repeated-create": ("lose", "state"),
    "old-generation": ("undisturbed", "status"),
    "gives-up": ("refuse", "state"),
    "takes-over": ("occupy", "foreign"),
    "only-creates": ("edit-child", "state"),
}
"""The pattern by which each bug is found here, to save time: `quarterdeck torture` tries them all."""


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def scene(bug: str) -> Scene:
    return Scene(
        subject=manager_subject(lambda cluster, link: equip(cluster.manager(link=link), link.client, bug)),
        crds=[Shop],
        nodes=1,
        pace=replace(Pace.virtual(), calm=20.0, learning=20.0, patience=200.0),
        is_virtual=True,
        changes=changes_of(schema_of([crd(Shop)], SAMPLE), SAMPLE),
    )


def tried(bug: str, *patterns: str, most_runs: int = 0) -> Report:
    return torture(scene(bug), WORKLOAD, patterns=patterns, most_runs=most_runs, stops_at_first=True)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    pattern, oracle = FOUND_BY[bug]
    report = tried(bug, pattern, most_runs=12)
    found = [each for each in report.findings if each.is_certain]
    assert (found[0].pattern, found[0].oracle) == (pattern, oracle), as_text(report)


def test_an_operator_without_a_bug_passes_every_pattern() -> None:
    report = torture(scene(""), WORKLOAD, most_runs=17)
    assert report.runs == 17
    assert report.findings == [], as_text(report)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(crd(Shop)))
    (tmp_path / "sample.yaml").write_text(yaml.safe_dump(SAMPLE))
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump([{"create": {}}, {"delete": {}}]))
    names = ("crd", "sample", "workload")
    given = [word for name in names for word in (f"--{name}", str(tmp_path / f"{name}.yaml"))]
    return [*given, "--rest", "2s", "--nodes", "1"]


def command(bug: str) -> list[str]:
    return ["--", sys.executable, "-m", "tests.unit.testing.torture.shop", bug]


def test_a_bug_of_a_program_is_found_and_found_again(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _descendants()
    monkeypatch.chdir(Path(__file__).parents[4])
    page = tmp_path / "report.html"
    options = ["--patterns", "occupy", "--first", "--budget", "3m", "--report", str(page)]
    assert main(["torture", *files, *options, *command("takes-over")]) == 1
    text = capsys.readouterr().out
    (seed,) = re.findall(r"--replay '(\S+)' --", text)
    assert seed in page.read_text()
    assert main(["torture", *files, "--replay", seed, *command("takes-over")]) == 1
    assert f"--replay '{seed}' --" in capsys.readouterr().out
    assert _descendants() <= before


def test_a_program_that_does_nothing_cannot_be_tried(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = _descendants()
    assert main(["torture", *files, "--patience", "2s", "--", "sleep", "600"]) == 2
    assert "has written nothing" in capsys.readouterr().err
    assert main(["torture", *files, "--", "sh", "-c", "echo no such flag; exit 3"]) == 2
    assert "no such flag" in capsys.readouterr().err
    assert _descendants() <= before


def _descendants() -> set[str]:
    """Processes that this one has started and that still run, those of other tests among them."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1] == str(os.getpid()) and fields[0] != "Z":
                found.add((folder / "cmdline").read_text())
    return found
