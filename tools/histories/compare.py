"""What two servers observed of the same history, compared; pure.

A difference that is known and harmless is *explained*: it has a name here and a line in docs/apiserver.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from differential import differences

Json = dict[str, Any]
Observed = dict[int, Any]
REMEMBERS: Final = "a watch from a revision that the real server no longer remembers"
COLLECTION: Final = "events of a deleted collection: the real server goes on when an object is gone"
EMPTY_PAGE: Final = "a list in pages by a selector that goes on for the real server, with nothing more in it"


@dataclass
class Verdict:
    """differing: lines by the number of the step. explained: how often, by reason."""

    differing: dict[int, list[str]] = field(default_factory=dict)
    explained: Counter[str] = field(default_factory=Counter)


def compare(
    steps: list[Json], real: Observed, ours: Observed, volatile: Collection[int] = frozenset()
) -> Verdict:
    """volatile: steps whose answers the real server itself does not repeat."""
    verdict = Verdict()
    forgotten: set[int] = set()
    deleted: set[str] = set()
    for step in steps:
        number = step["i"]
        if step.get("method") == "DELETE":
            deleted.add(step["path"])
        if number in volatile or step.get("watch") in forgotten:
            continue
        if real.get(number) == ours.get(number):
            continue
        lines = list(differences(real.get(number), ours.get(number)))
        watch = number if step["op"] == "watch" else step.get("watch", -1)
        if watch >= 0 and _is_expired(real.get(number)) and not _is_expired(ours.get(number)):
            verdict.explained[REMEMBERS] += 1
            forgotten.add(watch)
        elif ours.get(number) is None and _is_empty_page(step, real[number]):
            verdict.explained[EMPTY_PAGE] += 1
        elif (
            step["op"] == "read"
            and _is_collection_of_pods(step, deleted)
            and _by_object(real[number]) == _by_object(ours[number])
        ):
            verdict.explained[COLLECTION] += 1
        else:
            verdict.differing[number] = lines
    return verdict


def volatile_steps(steps: list[Json], first: Observed, second: Observed) -> list[int]:
    """The steps that the same server answered differently when it was told twice."""
    return [step["i"] for step in steps if first.get(step["i"]) != second.get(step["i"])]


def _is_empty_page(step: Json, observed: Any) -> bool:
    """The token was given out for objects that the selector leaves out."""
    return "continue=" in step.get("query", "") and not observed["body"].get("items")


def _is_collection_of_pods(step: Json, deleted: Collection[str]) -> bool:
    path: str = step.get("path", "")
    return path in deleted and path.endswith("/pods")


def _by_object(observed: Json) -> dict[str, list[Json]]:
    """The events of a stream for each object; their revisions follow from the order of all."""
    found: dict[str, list[Json]] = {}
    for event in observed["events"]:
        shown = event["object"]
        if shown.get("kind") == "Table":
            [row] = shown["rows"]
            shown = {**row["object"], "cells": row["cells"]}
        meta = {key: value for key, value in shown["metadata"].items() if key != "resourceVersion"}
        found.setdefault(meta.get("name", ""), []).append({"type": event["type"], **shown, "metadata": meta})
    return found


def _is_expired(observed: Any) -> bool:
    """410, as an answer or as the first event."""
    if not isinstance(observed, dict):
        return False
    events = observed.get("events") or [{}]
    return observed.get("status") == 410 or (
        events[0].get("type") == "ERROR" and (events[0].get("object") or {}).get("code") == 410
    )
