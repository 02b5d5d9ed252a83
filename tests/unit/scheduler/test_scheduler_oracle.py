"""Clusters on which KAI-Scheduler was watched: the same outcome, or a difference that the docs explain."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.scheduler import Settings, Snapshot, schedule

from .compactcase import differences, outcomes, read_cases, settings_of, snapshot_of, standing
from .settling import after, changes, cycles

Json = dict[str, Any]

DOCS = Path(__file__).parents[3] / "docs" / "operators" / "kai.md"
DIFFERENCES: Mapping[str, tuple[str, ...]] = {
    "Pods without GPUs stay away from shared ones": (
        *("fraction-001", "fraction-002", "fraction-003", "fraction-005"),
        *("gpumem-001", "gpumem-004", "gpumem-006", "gpumem-009", "gpumem-010"),
    ),
    "A limit counts pods that terminate": ("gpumem-020",),
    "Promised room is filled before empty nodes": ("topology-001",),
    "Pods stay on their shared GPU if they can": ("fraction-007", "gpumem-002"),
    "Parts of GPUs are moved together": ("fraction-009",),
    "A wider level may stand inside a narrower one": (
        *("nested-001", "nested-002", "nested-004", "nested-005", "nested-006", "nested-008", "nested-010"),
    ),
    "Terminating pods do not count for affinity": (
        *("affinity-001", "affinity-002", "affinity-003", "affinity-004", "affinity-005", "affinity-006"),
        *("affinity-007", "affinity-008"),
    ),
    "A gang may lose its surplus and then the rest": ("departments-001", "affinity-009"),
    "Victims may span several domains": ("nested-007",),
    "No eviction for a gang that would not get the capacity": ("departments-005", "nested-009"),
    "Equal places are chosen by name": ("cpu-001",),
}
"""Titles in the docs, with the cases that show them."""

OTHERS_ARE_SERVED = (
    "Terminating pods do not count for affinity",
    "A gang may lose its surplus and then the rest",
    "Victims may span several domains",
    "No eviction for a gang that would not get the capacity",
)
"""The titles under which somebody else may get the room; under the others only the places differ."""

CASES = {case["id"]: case for case in read_cases("kai-oracle.json")}
EXPLAINED = {f"oracle-{name}": title for title, found in DIFFERENCES.items() for name in found}


def problems_of(case: Json) -> list[str]:
    snapshot, settings = snapshot_of(case["given"]), settings_of(case["when"])
    if case["kind"] == "schedule-cycle":
        return differences(case, outcomes(snapshot, schedule(snapshot, settings)))
    if case["kind"] == "schedule-converge":
        return unsettled(case, snapshot, settings)
    return parts_of_gangs(case, snapshot, settings)


def unsettled(case: Json, snapshot: Snapshot, settings: Settings) -> list[str]:
    for seen, result in cycles(snapshot, settings, case["when"]["cycles"]):
        snapshot = after(seen, result)
    problems = differences(case, standing(snapshot))
    for seen, result in cycles(snapshot, settings, case["when"]["stableCycles"]):
        problems += [f"changes: {each}" for each in changes(result)]
        problems += differences(case, standing(after(seen, result)))
    return problems


def parts_of_gangs(case: Json, snapshot: Snapshot, settings: Settings) -> list[str]:
    """Groups that were started below the minimum of a leaf."""
    problems = []
    count = case["when"]["cycles"] + case["when"]["stableCycles"]
    for number, (seen, result) in enumerate(cycles(snapshot, settings, count)):
        before, now = standing(seen), standing(after(seen, result))
        for group in case["given"]["podGroups"]:
            members = [pod for pod in case["given"]["pods"] if pod["podGroup"] == group["name"]]
            if any(before[pod["name"]][0] == "Bound" for pod in members):
                continue
            bound = [pod.get("subGroup", "") for pod in members if now[pod["name"]][0] == "Bound"]
            lacking = {leaf: least for leaf, least in minimums(group).items() if bound.count(leaf) < least}
            if bound and lacking:
                problems.append(f"cycle {number}: {group['name']} started without {lacking}")
    return problems


def minimums(group: Json) -> dict[str, int]:
    subgroups = group.get("subGroups") or ()
    parents = {each.get("parent") for each in subgroups}
    leaves = {
        each["name"]: max(each.get("minMember", 1), 1) for each in subgroups if each["name"] not in parents
    }
    return leaves or {"": max(group.get("minMember", 1), 1)}


@pytest.mark.parametrize("name", sorted(CASES.keys() - EXPLAINED.keys()))
def test_the_outcome_is_the_same(name: str) -> None:
    assert problems_of(CASES[name]) == []


@pytest.mark.parametrize("name", sorted(EXPLAINED))
def test_what_is_said_to_differ_does(name: str) -> None:
    assert CASES[name]["kind"] == "schedule-cycle"
    assert problems_of(CASES[name]) != []


@pytest.mark.parametrize("name", sorted(EXPLAINED))
def test_where_the_outcome_differs_it_settles_and_leaves_nobody_behind(name: str) -> None:
    case = CASES[name]
    snapshot, settings = snapshot_of(case["given"]), settings_of(case["when"])
    late = []
    for number in range(7):
        result = schedule(snapshot, settings)
        late += changes(result) if number > 2 else []
        snapshot = after(snapshot, result)
        # who terminates is gone by the second cycle
        snapshot = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if not pod.is_deleted))
    assert late == []
    if EXPLAINED[name] not in OTHERS_ARE_SERVED:
        placed = [
            pod for pod, seen in case["then"]["pods"].items() if seen["state"] in ("Bound", "Pipelined")
        ]
        assert [pod for pod in placed if standing(snapshot)[pod][0] != "Bound"] == []


def test_every_difference_is_explained() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [title for title in DIFFERENCES if f"| {title} |" not in text] == []
