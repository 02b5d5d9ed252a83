"""Columns of text, as wide as they need to be, and numbers with their nouns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quarterdeck.scheduler.fiterror import amount_text


def counted(amount: float, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{amount_text(amount)} {noun}" + ("" if amount == 1 else "s")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "  ") -> list[str]:
    """Lines with columns under their heads; numbers stand right."""
    cells = [[*head], *([str(each) for each in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    is_number = [
        len(cells) > 1 and all(_is_number(row[column]) for row in cells[1:]) for column in range(len(head))
    ]
    lines = []
    for row in cells:
        texts = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, is_number, strict=True)
        )
        lines.append((indent + "  ".join(texts)).rstrip())
    return lines


def _is_number(text: str) -> bool:
    return text in ("", "-", "∞") or text.replace(".", "", 1).lstrip("-+").isdecimal()
