"""The layers inside the rooms, as a page: drawn from the contracts that `make check` holds.

python tools/layers_page.py [--check]     writes docs/layers.md, or fails if it is out of date
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "layers.md"
HEAD = """\
# Layers of the rooms

Generated from the contracts in `pyproject.toml`, which `make check` holds: a layer may import those below
it, never one above, and the parts of one layer do not import each other. `python tools/rooms.py NAME` prints
who uses whom.

"""


def contracts() -> list[dict[str, Any]]:
    """Those that draw the layers of a room, the rooms themselves first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]


def page() -> str:
    return HEAD + "\n".join(
        section(container, contract["layers"])
        for contract in contracts()
        for container in contract["containers"]
    )


def section(container: str, layers: list[str]) -> str:
    title = container.removeprefix("quarterdeck.") if "." in container else "the rooms"
    rows = [
        f"| {number if place == 0 else ''} | `{part}` | {summary(container, part)} |"
        for number, layer in zip(range(len(layers), 0, -1), layers, strict=True)
        for place, part in enumerate(re.split(r"\s*[|:]\s*", layer))
    ]
    return "\n".join((f"## {title}", "", "| layer | part | what it is |", "|---|---|---|", *rows, ""))


def summary(container: str, part: str) -> str:
    """The first sentence of a package or module."""
    place = ROOT / "src" / Path(*container.split(".")) / part
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    first = " ".join(text.partition("\n\n")[0].split()).replace("|", "&#124;").replace("``", "`")
    return first if first.endswith((".", "?")) or not first else f"{first.removesuffix(':')}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    if options.check:
        print(f"{PAGE} is out of date: run tools/layers_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
