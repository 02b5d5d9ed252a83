"""Expectations that must hold after every event of a parallel step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.harness.case import CaseFailure
from tests.harness.matching import MISSING, json_equal, show
from tests.harness.variable import lookup

from .caseobjects import CaseObjects
from .expect import count_mismatches, counts_of, pod_mismatches, selector_of
from .match import object_mismatches
from .watch import ObjectLog

Json = dict[str, Any]


async def check_always(
    wanted: Json, objects: CaseObjects, logs: Sequence[ObjectLog], remembered: Mapping[str, Any]
) -> None:
    """Raises CaseFailure with the first event after which something was not so."""

    def states(ref: Json) -> Iterator[list[Json]]:
        place = ref.get("metadata") or ref
        namespace = objects.namespace(place.get("namespace"))
        for log in logs:
            if log.kind.kind == ref["kind"] and log.namespace == namespace:
                return log.states()
        raise CaseFailure(f"changes of {ref['kind']} are not watched")

    if "pods" in wanted:
        _every(
            states({"kind": "Pod", "namespace": wanted["pods"].get("namespace")}),
            lambda pods: pod_mismatches(wanted["pods"], _chosen(pods, wanted["pods"].get("selector") or {})),
        )
    for each in _listed(wanted.get("count") or []):
        for count in counts_of(each):
            _every(
                states(count),
                lambda items, count=count: count_mismatches(count, _chosen(items, selector_of(count))),
            )
    for each in wanted.get("objects") or ():
        expected = await objects.resolved(objects.real(each))
        _every(states(each), lambda items, expected=expected: _object_lines(expected, items))
    for is_same, word in ((True, "same"), (False, "differs")):
        for each in wanted.get(word) or ():
            before = remembered.get(each["remembered"], MISSING)
            _every(
                states(each["ref"]),
                lambda items, each=each, before=before, is_same=is_same: _value_lines(
                    each, items, before, is_same=is_same
                ),
            )


def _every(states: Iterator[list[Json]], lines_of: Any) -> None:
    for moment, items in enumerate(states):
        lines = lines_of(items)
        if lines:
            raise CaseFailure(f"not after event {moment}:", *lines)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _chosen(items: list[Json], selector: Json) -> list[Json]:
    return [each for each in items if selector.items() <= (each["metadata"].get("labels") or {}).items()]


def _object_lines(expected: Json, items: list[Json]) -> list[str]:
    """An object must be as expected whenever it is there."""
    name = expected["metadata"]["name"]
    present = (each for each in items if each["metadata"]["name"] == name)
    return [f"{name}: {line}" for each in present for line in object_mismatches(expected, each)]


def _value_lines(wanted: Json, items: list[Json], before: Any, *, is_same: bool) -> list[str]:
    for item in items:
        if item["metadata"]["name"] != wanted["ref"]["name"]:
            continue
        try:
            now = lookup(item, wanted["path"])
        except KeyError:
            now = MISSING
        if json_equal(before, now) != is_same:
            word = "the same as" if is_same else "different from"
            return [f"{wanted['path']}: expected {word} {show(before)}, got {show(now)}"]
    return []
