"""Tables of the server as text, as kubectl prints them, without the age, which always changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def render_table(table: dict[str, Any], labels: Sequence[str] = (), *, wide: bool = False) -> str:
    """A Table in columns; `labels` get a column each."""
    columns = [
        (index, column["name"].upper())
        for index, column in enumerate(table["columnDefinitions"])
        if (wide or not column.get("priority")) and column["name"] not in ("Age", "Last Seen")
    ]
    rows = [[name for _, name in columns] + [label.rpartition("/")[2].upper() for label in labels]]
    for row in table["rows"]:
        found = row["object"]["metadata"].get("labels") or {} if labels else {}
        cells = [_cell(row["cells"][index]) for index, _ in columns]
        rows.append(cells + [found.get(label, "") for label in labels])
    width = range(len(rows[0]))
    widths = [max(len(row[place]) for row in rows) for place in width]
    if wide:  # columns without news are left out
        kept = [place for place in width if any(row[place] != "<none>" for row in rows[1:])]
        rows, widths = [[row[place] for place in kept] for row in rows], [widths[place] for place in kept]
    lines = [
        "   ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(f"  {line}" for line in lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return str(value).lower()
    first, _, more = str(value).partition("\n")
    return f"{first}..." if more else first
