"""Case files: what one holds and how it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

Json = dict[str, Any]

CASE_WORDS: Final = frozenset(
    {
        "id", "kind", "source", "given", "when", "then", "note", "tags", "group", "level", "endToEnd",
        "extra", "optional",
    }
)  # fmt: skip
"""What may stand in a case; most of it is for readers."""


class CaseFailure(Exception):
    """A case that did not hold, with every line a reader needs to see why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def expect_equal(what: str, wanted: Any, found: Any, context: Any = None) -> None:
    """Raises CaseFailure that shows both, and the beginning of ``context``."""
    if wanted != found:
        lines = [f"{what}:", f"  expected {wanted!r}", f"  found    {found!r}"]
        raise CaseFailure(*lines, *([f"  in {str(context)[:1500]}"] if context is not None else []))


class CaseFile(msgspec.Struct, frozen=True):
    """One file: its cases and whatever else stands at its top level (`fixtures`, `kinds`, ...)."""

    path: Path
    system: str
    document: Json

    @property
    def fixtures(self) -> dict[str, Json]:
        fixtures: dict[str, Json] = self.document.get("fixtures") or {}
        return fixtures


class Case(msgspec.Struct, frozen=True):
    """One case; `raw` is the whole entry, including keys that only its kind understands."""

    file: CaseFile
    id: str
    kind: str
    raw: Json

    @property
    def given(self) -> Json:
        given: Json = self.raw.get("given") or {}
        return given

    @property
    def when(self) -> Json:
        when: Json = self.raw.get("when") or {}
        return when

    @property
    def then(self) -> Json:
        then: Json = self.raw.get("then") or {}
        return then


def load(path: Path) -> list[Case]:
    """The cases of a file, in order.

    Raises ValueError with the path when the file is not a case file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as a case file: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("cases"), list):
        raise ValueError(f'{path}: a case file is an object with a list "cases"')
    file = CaseFile(path=path, system=str(document.get("system", "")), document=document)
    return [_case(file, index, raw) for index, raw in enumerate(document["cases"])]


def _case(file: CaseFile, index: int, raw: Any) -> Case:
    if not isinstance(raw, dict):
        raise ValueError(f"{file.path}: cases[{index}] is not an object")
    return Case(file=file, id=str(raw.get("id", f"#{index}")), kind=str(raw.get("kind", "")), raw=raw)
