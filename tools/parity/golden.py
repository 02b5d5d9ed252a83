"""Outcomes of the real server in a file, so that parity is checked where it cannot run.

The first kubectl version is stored whole, each other one as far as its outcomes differ from the first:
most of them do not. Texts are stored as lists of lines, for readable reviews.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .runner import Outcome

PATH: Final = Path(__file__).parents[2] / "tests" / "integration" / "kubectl_golden.json"


def load(path: Path = PATH) -> dict[str, dict[str, Outcome]]:
    """kubectl version -> step id -> outcome; empty when nothing is recorded."""
    if not path.exists():
        return {}
    document: dict[str, dict[str, Any]] = json.loads(path.read_text())
    result: dict[str, dict[str, Outcome]] = {}
    base: dict[str, Outcome] = {}
    for version, entries in document.items():
        own = {name: _decode(entry) for name, entry in entries.items() if entry is not None}
        result[version] = {name: base[name] for name in base if name not in entries} | own
        base = base or own
    return result


def save(recorded: dict[str, dict[str, Outcome]], path: Path = PATH) -> None:
    """Write all versions, newest first. A null marks a step that a version does not have."""
    document: dict[str, dict[str, Any]] = {}
    base: dict[str, Outcome] = {}
    for version in sorted(recorded, key=_order, reverse=True):
        outcomes = recorded[version]
        document[version] = {
            name: _encode(outcome) for name, outcome in outcomes.items() if base.get(name) != outcome
        } | {name: None for name in base if name not in outcomes}
        base = base or outcomes
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _encode(outcome: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {"code": outcome.code}
    if outcome.out:
        entry["out"] = outcome.out.split("\n")
    if outcome.err:
        entry["err"] = outcome.err.split("\n")
    return entry


def _decode(entry: dict[str, Any]) -> Outcome:
    return Outcome(entry["code"], "\n".join(entry.get("out", [])), "\n".join(entry.get("err", [])))
