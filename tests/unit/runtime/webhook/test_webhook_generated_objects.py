"""Objects for round trips: plausible, repeatable, and finite for types that contain themselves."""

from __future__ import annotations

import random
from enum import Enum
from typing import Annotated, Literal

from quarterdeck.api import UNSET, Map, Maybe, Model, Quantity, Resource, Seq, Time, decode, omitempty
from quarterdeck.runtime.webhook.roundtrip import MAX_DEPTH, generate


class Branch(Model):
    name: str = omitempty("")
    branches: Seq[Branch] = omitempty(())


class Tree(Resource, group="example.com", version="v1"):
    branches: Seq[Branch] = omitempty(())


class Wood(Enum):
    OAK = "oak"
    ELM = "elm"


class Chest(Resource, group="example.com", version="v1", scope="Cluster"):
    color: Literal["red", "green"] = "red"
    size: Annotated[Maybe[int], "unit"] = UNSET
    weight: Maybe[Quantity] = UNSET
    since: Maybe[Time] = UNSET
    notes: Map[str, str] = omitempty({})
    locked: Maybe[bool] = UNSET
    wood: Maybe[Wood] = UNSET
    drawers: Seq[str] = omitempty(())
    label: Maybe[bytes] = UNSET


def depth(branches: Seq[Branch]) -> int:
    return max((1 + depth(each.branches) for each in branches), default=0)


def many(kind: type[Resource]) -> list[Resource]:
    return [generate(kind, random.Random(seed)) for seed in range(200)]


def test_a_type_that_contains_itself_comes_to_an_end() -> None:
    depths = {depth(each.branches) for each in many(Tree) if isinstance(each, Tree)}
    assert 0 in depths
    assert 2 <= max(depths) <= MAX_DEPTH


def test_the_same_seed_makes_the_same_object() -> None:
    assert generate(Chest, random.Random(7)) == generate(Chest, random.Random(7))
    assert len({each.to_bytes() for each in many(Chest)}) > 100


def test_every_field_is_there_in_some_objects_and_absent_in_others() -> None:
    written = [each.to_dict() for each in many(Chest)]
    for name in ("size", "weight", "since", "notes", "locked", "wood", "drawers", "label"):
        assert 0 < sum(name in each for each in written) < len(written), name
    assert {each["color"] for each in written} == {"red", "green"}
    assert {each.get("wood") for each in written} == {"oak", "elm", None}
    assert {each.get("locked") for each in written} == {True, False, None}


def test_lists_and_maps_are_short_and_numbers_reach_their_limits() -> None:
    made = [each for each in many(Chest) if isinstance(each, Chest)]
    assert {len(each.drawers) for each in made} == {0, 1, 2, 3}
    assert {len(each.notes) for each in made} == {0, 1, 2}
    sizes = {each.size for each in made if each.size is not UNSET}
    assert (min(sizes), max(sizes)) == (0, 2**31 - 1)
    assert {each.metadata.generation for each in made} == set(range(1, 10))
    assert all(len(each.metadata.uid) == 32 for each in made)
    assert {len(each.metadata.labels) for each in made} == {0, 1}
    assert {len(each.metadata.annotations) for each in made} == {0, 1}


def test_an_object_is_what_its_bytes_say() -> None:
    for each in many(Chest):
        assert decode(each.to_bytes(), Chest) == each


def test_only_namespaced_kinds_have_a_namespace() -> None:
    assert {each.metadata.namespace for each in many(Chest)} == {""}
    assert {each.metadata.namespace for each in many(Tree)} == {"team-a"}
