"""Which subgroups are admitted: one message, the first that applies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import from_dict
from quarterdeck.operators.kai.logic.subgroup import _has_cycle, violation
from quarterdeck.operators.kai.types import PodGroupSpec

CYCLE = "cycle detected in subgroups"


def tree(*groups: str | dict[str, Any], **spec: Any) -> PodGroupSpec:
    """Subgroups as ``name`` or ``name<parent``."""
    made = []
    for group in groups:
        if isinstance(group, dict):
            made.append(group)
            continue
        name, has_parent, parent = group.partition("<")
        made.append({"name": name, **({"parent": parent} if has_parent else {})})
    return from_dict({"subGroups": made, **spec}, PodGroupSpec)


@pytest.mark.parametrize(
    "spec",
    [
        tree(),
        from_dict({}, PodGroupSpec),
        tree("a"),
        tree("master", "workers<master"),
        tree("leaf<mid", "mid<top", "top"),
        tree("worker_1", "-odd.name", "a b", "123", "größe", "ß"),
        tree({"name": "a", "parent": None}),
        tree({"name": "p", "minMember": 2}, {"name": "c", "minMember": 4, "parent": "p"}, minMember=2),
    ],
)
def test_good_trees(spec: PodGroupSpec) -> None:
    assert violation(spec) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (tree("Master"), 'subgroup name "Master" must be lowercase'),
        (tree("Ünit"), 'subgroup name "Ünit" must be lowercase'),
        (tree("ǅ"), 'subgroup name "ǅ" must be lowercase'),
        (tree('A"b\\c'), r'subgroup name "A\"b\\c" must be lowercase'),
        (tree("A\n\x00\u00a0"), r'subgroup name "A\n\x00\u00a0" must be lowercase'),
        (tree("m", "w<M"), 'parent of subgroup "w": subgroup name "M" must be lowercase'),
        (tree("a", "a"), "duplicate subgroup name a"),
        (tree("a<x"), "parent x of a was not found"),
        (tree("a<"), "parent  of a was not found"),
        (tree("a<a"), CYCLE),
        (tree("a<b", "b<a"), CYCLE),
        (tree("root", "a<root", "b<d", "c<b", "d<c"), CYCLE),
        # order
        (tree("A", "A"), 'subgroup name "A" must be lowercase'),
        (tree("a", "a", "B"), "duplicate subgroup name a"),
        (tree("a<missing", "B"), 'subgroup name "B" must be lowercase'),
        (tree("W<M"), 'subgroup name "W" must be lowercase'),
        (tree("a", "b<X"), 'parent of subgroup "b": subgroup name "X" must be lowercase'),
        (tree("a", "a<X"), 'parent of subgroup "a": subgroup name "X" must be lowercase'),
        (tree("a<a", "b<x"), "parent x of b was not found"),
        (tree("z<q", "a<p"), "parent q of z was not found"),
    ],
)
def test_bad_trees(spec: PodGroupSpec, text: str) -> None:
    assert violation(spec) == text


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            tree("a", minMember=3, minSubGroup=1),
            "minMember and minSubGroup are mutually exclusive: set minMember (3) to schedule a fixed number",
        ),
        # names before minimums
        (tree("A", minMember=3, minSubGroup=1), 'subgroup name "A" must be lowercase'),
        (tree("a", "a", minMember=3, minSubGroup=1), "duplicate subgroup name a"),
        (tree("A", minSubGroup=9), 'subgroup name "A" must be lowercase'),
        (
            tree({"name": "p", "minMember": 1, "minSubGroup": 1}, "c<p"),
            'subgroup "p": minMember and minSubGroup are mutually exclusive',
        ),
        (
            tree({"name": "a", "minSubGroup": 1}),
            'subgroup "a": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)',
        ),
        (tree({"name": "p", "minSubGroup": 0}, "c<p"), 'subgroup "p": minSubGroup must be greater than 0'),
        (tree({"name": "p", "minSubGroup": -1}, "c<p"), 'subgroup "p": minSubGroup must be greater than 0'),
        (
            tree({"name": "p", "minSubGroup": 2}, "c<p"),
            'subgroup "p": minSubGroup (2) exceeds the number of direct child SubGroups (1)',
        ),
        # in the order of names, and before what the group itself says
        (
            tree({"name": "z", "minSubGroup": 1}, {"name": "b", "minSubGroup": 1}, minSubGroup=0),
            'subgroup "b": minSubGroup cannot be set on a leaf',
        ),
        (tree("a", minSubGroup=0), "minSubGroup must be greater than 0"),
        (tree("a", "b<a", minSubGroup=2), "minSubGroup (2) exceeds the number of direct child SubGroups (1)"),
        (tree(minSubGroup=1), "minSubGroup (1) exceeds the number of direct child SubGroups (0)"),
    ],
)
def test_bad_minimums_of_children(spec: PodGroupSpec, text: str) -> None:
    assert violation(spec).startswith(text)


@pytest.mark.parametrize(
    "spec",
    [
        tree("a", "b", "c", minSubGroup=2),
        tree({"name": "p", "minSubGroup": 1}, "c<p", "d<p", minSubGroup=1),
    ],
)
def test_good_minimums_of_children(spec: PodGroupSpec) -> None:
    assert violation(spec) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (tree("Master", "workers<master"), 'subgroup name "Master" must be lowercase'),
        (
            tree("master", "workers<Master"),
            'parent of subgroup "workers": subgroup name "Master" must be lowercase',
        ),
        (tree("dataLoader", "modelTrainer", "resultWriter"), 'subgroup name "dataLoader" must be lowercase'),
        (tree("master", "worker-1<master", "worker-2<master"), ""),
        (tree("replica-1", "replica-2"), ""),
        *((tree(name), "") for name in ("workers", "decode-workers", "worker-1")),
        *(
            (tree(name), f'subgroup name "{name}" must be lowercase')
            for name in ("Workers", "decodeWorkers", "WORKERS", "Decode-Workers")
        ),
    ],
)
def test_the_tables_of_the_design(spec: PodGroupSpec, text: str) -> None:
    assert violation(spec) == text


NAMES = st.text(alphabet="abcAB", min_size=1, max_size=2)


@given(st.lists(st.tuples(NAMES, st.none() | NAMES), max_size=7))
def test_what_is_admitted_is_a_forest_of_lowercase_names(groups: list[tuple[str, str | None]]) -> None:
    spec = tree(*({"name": name, **({"parent": above} if above else {})} for name, above in groups))
    parents = dict(groups)
    names = [name for name, _ in groups]

    def reaches_root(name: str) -> bool:
        seen: set[str] = set()
        above: str | None = name
        while above is not None and above not in seen and above in parents:
            seen.add(above)
            above = parents[above]
        return above is None

    is_good = (
        len(set(names)) == len(names)
        and all(name == name.lower() for name in names)
        and all(reaches_root(name) for name in names)
    )
    assert (violation(spec) == "") == is_good


class CountedParents(dict[str, str | None]):
    """Counts how often it is asked."""

    asked = 0

    def __getitem__(self, name: str) -> str | None:
        self.asked += 1
        return super().__getitem__(name)


@pytest.mark.parametrize("is_leaf_first", [True, False])
def test_a_long_chain_is_looked_at_once_for_each_of_its_groups(is_leaf_first: bool) -> None:
    count = 1000
    chain: list[tuple[str, str | None]] = [
        (f"g{n}", f"g{n + 1}" if n < count - 1 else None) for n in range(count)
    ]
    parents = CountedParents(chain if is_leaf_first else reversed(chain))
    assert not _has_cycle(parents)
    assert parents.asked == count
