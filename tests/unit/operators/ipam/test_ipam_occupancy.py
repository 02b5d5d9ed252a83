"""Overlapping blocks: what is free is the pool without their union, whatever their history."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.occupancy import Occupancy, Rank

from .ipamstrategy import POOLS, addresses, blocks_around, uncovered

histories = st.sampled_from(POOLS).flatmap(
    lambda pool: st.tuples(
        st.just(pool),
        st.lists(st.tuples(st.booleans(), blocks_around(pool), st.integers(0, 3)), max_size=25),
    )
)


@given(histories)
@settings(max_examples=200)
def test_union_semantics_under_any_history(history: tuple[Network, list[tuple[bool, Network, int]]]) -> None:
    pool, steps = history
    view, blocks = Occupancy(pool), dict[str, Network]()
    for number, (leaves, block, age) in enumerate(steps):
        if leaves and blocks:
            holder = sorted(blocks)[number % len(blocks)]
            view.remove(holder, blocks.pop(holder))
        else:
            holder = f"h{number:03}"
            blocks[holder] = block
            view.add(holder, block, Rank(str(age), holder))
        free = {address for each in view.space.blocks() for address in addresses(each)}
        assert free == uncovered(pool, blocks.values())
        inside = {name: each for name, each in blocks.items() if each.overlaps(pool)}
        pairs = {
            (one, other)
            for one in inside
            for other in inside
            if one != other and inside[one].overlaps(inside[other])
        }
        assert view.has_overlaps == bool(pairs)
        for name in inside:
            assert set(view.rivals(name, inside[name])) == {other for one, other in pairs if one == name}
            assert name in set(view.overlapping(inside[name]))
        assert view.copy().space == view.space


def test_bigger_member_over_smaller_ones_hides_the_rest() -> None:
    view = Occupancy(parse("10.0.0.0/22"))
    view.add("small", parse("10.0.0.0/24"), Rank("1", "small"))
    view.add("big", parse("10.0.0.0/23"), Rank("2", "big"))
    assert not view.space.is_free(parse("10.0.1.0/24"))
    view.remove("small", parse("10.0.0.0/24"))
    assert not view.has_overlaps
    assert str(view.space.lowest(24)) == "10.0.2.0/24"
    view.remove("big", parse("10.0.0.0/23"))
    assert view.space.is_untouched


def test_ranges_go_to_the_oldest_of_those_that_cover_them() -> None:
    view = Occupancy(parse("10.0.0.0/24"))
    for name, age in (("holder", "0"), ("young", "2"), ("old", "1")):
        view.add(name, parse("10.0.0.0/26"), Rank(age, name))
    view.remove("holder", parse("10.0.0.0/26"))
    assert set(view.rivals("old", parse("10.0.0.0/26"))) == {"young"}
    view.remove("old", parse("10.0.0.0/26"))
    assert not view.has_overlaps
    assert not view.space.is_free(parse("10.0.0.0/26"))


def test_a_holder_is_told_whether_it_has_its_block_for_itself() -> None:
    view = Occupancy(parse("10.0.0.0/26"))
    assert view.add("first", parse("10.0.0.0/28"), Rank("1", "first")) is True
    assert view.add("outside", parse("10.1.0.0/28"), Rank("2", "outside")) is True
    assert view.add("beside", parse("10.0.0.16/28"), Rank("3", "beside")) is True
    assert view.add("over", parse("10.0.0.0/27"), Rank("4", "over")) is False
