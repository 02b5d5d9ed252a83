"""Wishes between pods, and limits of volumes, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.cluster.placement.state import PlacementState
from quarterdeck.cluster.placement.volumelimit import Volume, VolumeLimits

from .test_placement_preemption import Json, demand, node, pod

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("b2", "b")]


def term(app: str, key: str = "zone") -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(kind: str, app: str, weight: int = 0, key: str = "zone") -> Json:
    """A wish with a weight; without one it is a demand."""
    if not weight:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}
    wish = {"weight": weight, "podAffinityTerm": term(app, key)}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def place(wanted: list[Json], running: list[Json], **more: Any) -> list[str]:
    demands = [demand(each) for each in wanted]
    infos = [*(demand(each).info for each in running), *(each.info for each in demands)]
    state = PlacementState(NODES, infos, {"default": {}}, **more)
    return [state.place(each) for each in demands]


def test_pods_that_would_rather_be_apart_are() -> None:
    wish = affinity("podAntiAffinity", "x", 10)
    assert place([pod(f"p{n}", affinity=wish) for n in range(3)], []) == ["a1", "b1", "a2"]


def test_a_wish_is_stronger_than_room_and_weaker_than_having_none() -> None:
    wish = affinity("podAffinity", "db", 1)
    running = [pod("db", "3", at="b1", app="db")]
    assert place([pod("p", affinity=wish)], running) == ["b2"]
    full = [*running, pod("other", "4", at="b2"), pod("more", "1", at="b1")]
    assert place([pod("p", affinity=wish)], full) == ["a1"]


def test_the_heavier_wish_wins() -> None:
    running = [pod("db", at="a1", app="db"), pod("log", at="b1", app="log")]
    near_db = affinity("podAffinity", "db", 1)
    away_from_log = affinity("podAntiAffinity", "log", 5)
    both = {**near_db, **affinity("podAntiAffinity", "db", 5)}
    assert place([pod("p", affinity={**near_db, **away_from_log})], running) == ["a2"]
    assert place([pod("p", affinity=both)], running) == ["b2"]


@pytest.mark.parametrize(
    ("kind", "weight", "found"),
    [("podAffinity", 5, "b2"), ("podAntiAffinity", 5, "a1"), ("podAffinity", 0, "b2")],
    ids=["wishes for it", "would rather not", "demands company"],
)
def test_those_who_run_have_wishes_about_newcomers(kind: str, weight: int, found: str) -> None:
    host = pod("host", at="b1", app="host", affinity=affinity(kind, "guest", weight))
    assert place([pod("guest", app="guest")], [host]) == [found]


def test_the_wishes_of_those_who_were_placed_a_moment_ago_count() -> None:
    host = pod("host", "4", app="host", affinity=affinity("podAffinity", "guest", 5))
    assert place([host, pod("guest", app="guest")], []) == ["a1", "a2"]


DISK = Volume("disk.example", "d1")
LIMITS = {each.name: {"disk.example": 1} for each in NODES}


def test_a_node_takes_no_more_volumes_than_its_driver_allows() -> None:
    volumes = {"uid-p0": frozenset({DISK}), "uid-p1": frozenset({Volume("disk.example", "d2")})}
    limits = VolumeLimits(LIMITS, volumes, [("a1", Volume("disk.example", "d0"))])
    assert place([pod("p0"), pod("p1"), pod("free")], [], limits=limits) == ["a2", "b1", "a1"]


def test_a_volume_counts_once_and_others_not_at_all() -> None:
    shared = frozenset({DISK, Volume("tape.example", "t")})
    running = [pod(f"r{n}", "4", at=each) for n, each in enumerate(("a2", "b1", "b2"))]
    limits = VolumeLimits(LIMITS, {"uid-p0": shared, "uid-p1": shared})
    assert place([pod("p0"), pod("p1")], running, limits=limits) == ["a1", "a1"]


def test_too_many_volumes_are_told_in_the_words_of_kube_scheduler() -> None:
    wanted = demand(pod("p"))
    limits = VolumeLimits(
        LIMITS, {"uid-p": frozenset({DISK, Volume("disk.example", "d2")}), "uid-gone": frozenset({DISK})}
    )
    state = PlacementState(NODES, [wanted.info], {}, limits=limits)
    assert state.place(wanted) == ""
    assert state.refusal(wanted) == "0/4 nodes are available: 4 node(s) exceed max volume count."
