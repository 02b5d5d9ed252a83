"""Cycles between the parts of a package are found, however long they are."""

from __future__ import annotations

from rooms import cycles_in, layers_of, parting

CLEAN = {"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set[str]()}
TANGLED = {"a": {"b"}, "b": {"c"}, "c": {"a", "leaf"}, "leaf": set[str](), "above": {"a"}}


def test_a_cycle_is_everything_that_reaches_itself() -> None:
    assert cycles_in(CLEAN) == []
    assert cycles_in(TANGLED) == [{"a", "b", "c"}]


def test_imports_are_between_the_parts_where_two_ways_divide() -> None:
    assert parting("q.a.b.x", "q.a.c") == ("q.a", "b", "c")
    assert parting("q.a.x", "q.a") == ("q.a", "x", "")


def test_layers_are_printed_from_the_top() -> None:
    assert layers_of(CLEAN) == [["top"], ["middle"], ["bottom"]]
    assert layers_of(TANGLED)[-1] == ["leaf"]
