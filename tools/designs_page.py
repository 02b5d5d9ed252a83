"""Write docs/designs.md from tools/designs/*.yaml: what the designs say, what became of it, the proof.

    python tools/designs_page.py [--check]

`--check` writes nothing and fails when the page is out of date.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "designs.md"
_NOTHING: Final = "none"
_SHORT: Final = ("src/quarterdeck/operators/", "tests/unit/operators/", "tests/")
_HEAD: Final = """# What was asked for

Generated from `tools/designs/*.yaml` by `tools/designs_page.py`; do not edit.

Five designs are what the operators were built from. Here is every statement of theirs: rules, texts,
fields, metrics, alerts, queries, test plans, stories, mitigations, TODOs and future extensions. A statement
is *done* only if the test beside it fails without it. *Done differently* says why, and what you see
instead; *not done* says why not.

Files are below `src/quarterdeck/operators/` unless they begin with another folder of the repository, tests
below `tests/unit/operators/` or `tests/`.
"""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One statement."""

    where: str
    says: str
    state: Literal["done", "done differently", "not done"]
    remark: str = ""
    """Why it is otherwise, and what a user sees; for what is done, what more there is to say."""
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    """As ``file::function``."""


class Design(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One document."""

    title: str
    about: str
    page: str
    """The page of its operator."""
    rows: tuple[Row, ...]


def designs() -> dict[str, Design]:
    """All documents by the name of their data file."""
    files = sorted((ROOT / "tools" / "designs").glob("*.yaml"))
    return {file.stem: msgspec.yaml.decode(file.read_bytes(), type=Design) for file in files}


def problems(design: Design) -> list[str]:
    """What is wrong with the rows of a document: an empty cell, or a proof that does not exist."""
    found: list[str] = []
    for row in design.rows:
        found += [f"{row.where}: {row.says}: {problem}" for problem in _problems(row)]
    return found


def _problems(row: Row) -> list[str]:
    found = [f"{name} is empty" for name in ("where", "says") if not getattr(row, name).strip()]
    if row.state != "done" and not row.remark:
        found.append("has no reason")
    if row.state != "not done" and not (row.files and row.tests):
        found.append("has no file or no test")
    found += [f"there is no file {file}" for file in row.files if not (ROOT / file).is_file()]
    for test in row.tests:
        file, _, function = test.partition("::")
        if function not in _functions(file):
            found.append(f"there is no test {test}")
    return found


@cache
def _functions(file: str) -> frozenset[str]:
    """Test functions of a file."""
    if not (ROOT / file).is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        each.name for each in ast.parse((ROOT / file).read_text()).body if isinstance(each, kinds)
    )


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for design in designs().values():
        count = Counter(row.state for row in design.rows)
        numbers = ", ".join(f"{count[state]} {state}" for state in ("done", "done differently", "not done"))
        parts.append(f"\n## {design.title}\n\n{design.about} ([the operator]({design.page})). ")
        parts.append(f"{len(design.rows)} statements: {numbers}.\n\n")
        parts.append("| where | statement | state | file | test |\n|---|---|---|---|---|\n")
        parts += [_line(row) for row in design.rows]
    return "".join(parts)


def _line(row: Row) -> str:
    state = f"{row.state}: {row.remark}" if row.remark else row.state
    cells = (row.where, row.says, state, _listed(row.files), _listed(row.tests))
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{_short(name)}`" for name in names) or _NOTHING


def _short(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _SHORT if name.startswith(prefix)), name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = [problem for design in designs().values() for problem in problems(design)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 1 if wrong else 0
    if options.check:
        print(f"{PAGE} is out of date: run tools/designs_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
