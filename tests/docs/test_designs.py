"""The page about the designs: no empty cell, no proof that is gone, and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import designs_page
from designs_page import Row

PAGES = Path(__file__).parents[2] / "docs" / "operators"
DESIGNS = designs_page.designs()
GOOD = Row("1", "a rule", "done", files=("tools/docs.py",), tests=(f"{__file__}::x",))


@pytest.mark.parametrize("name", DESIGNS)
def test_every_statement_has_its_file_and_its_test_or_a_reason(name: str) -> None:
    assert designs_page.problems(DESIGNS[name]) == []


def test_the_page_is_up_to_date() -> None:
    assert designs_page.PAGE.read_text() == designs_page.page()


def test_all_five_are_there_and_nothing_is_said_twice() -> None:
    assert [name[:3] for name in DESIGNS] == ["000", "001", "002", "003", "004"]
    for design in DESIGNS.values():
        said = [(row.where, row.says) for row in design.rows]
        assert len(said) == len(set(said))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (replace(GOOD, says=" "), "says is empty"),
        (replace(GOOD, state="not done"), "has no reason"),
        (replace(GOOD, files=()), "has no file or no test"),
        (replace(GOOD, tests=()), "has no file or no test"),
        (replace(GOOD, files=("src/gone.py",)), "there is no file src/gone.py"),
        (
            replace(GOOD, tests=("tests/docs/test_designs.py::test_gone",)),
            "there is no test tests/docs/test_designs.py::test_gone",
        ),
        (replace(GOOD, tests=("tests/gone.py::test_a",)), "there is no test tests/gone.py::test_a"),
    ],
)
def test_what_is_wrong_with_a_row_is_told(row: Row, problem: str) -> None:
    design = replace(next(iter(DESIGNS.values())), rows=(row,))
    assert any(found.endswith(problem) for found in designs_page.problems(design))


def test_no_cell_of_the_page_is_empty() -> None:
    rows = [line for line in designs_page.page().splitlines() if line.startswith("| ")]
    assert len(rows) > 300
    for line in rows:
        cells = line.strip("|").split("|")
        assert len(cells) == 5
        assert all(cell.strip() for cell in cells)


def test_the_kai_page_names_the_messages() -> None:
    page = (PAGES / "kai.md").read_text()
    assert 'subgroup name "X" must be lowercase' in page
    assert 'parent of subgroup "x": subgroup name "Y" must be lowercase' in page
    assert "`quarterdeck check kai` lists groups that were stored with such names" in page


def test_the_grove_page_tells_how_to_switch() -> None:
    page = (PAGES / "grove.md").read_text()
    switching = page.partition("### Changing the scheduler\n")[2].partition("\n### ")[0]
    assert "Switched from backend 'default-scheduler' to 'kai-scheduler'" in switching
    assert "To move a set, delete and create it" in switching
    assert "set `schedulerName: kai-scheduler`" in page
    assert "scheduling gates need Kubernetes 1.27 or newer" in page
    assert "So far there is only 1.0." in page


def test_the_page_about_schedulers_recommends_blue_and_green() -> None:
    page = (PAGES.parent / "schedulers.md").read_text()
    steps = page.partition("## Blue and green\n")[2].partition("\n## ")[0]
    assert "For production,\nset up the new one (green) beside the old one (blue)" in steps
    assert [line[:2] for line in steps.splitlines() if line[:1].isdigit()] == [f"{n}." for n in range(1, 7)]
    assert "quarterdeck grove check-config green.yaml" in steps
