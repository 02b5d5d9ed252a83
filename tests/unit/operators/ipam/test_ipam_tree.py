"""The picture of the pools."""

from __future__ import annotations

from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.logic.tree import ASCII, PoolView, draw


def view(name: str, cidr: str, *members: str, parent: str = "") -> PoolView:
    return PoolView(
        name=name,
        network=parse(cidr),
        cidr=cidr,
        parent=parent,
        strategy="Linear",
        members=[parse(each) for each in members],
    )


def test_children_stand_below_their_parent_in_the_order_of_their_addresses() -> None:
    pools = [
        view("z", "10.0.0.0/25", parent="top"),
        view("top", "10.0.0.0/24"),
        view("a", "10.0.0.128/25", parent="top"),
        view("deep", "10.0.0.0/26", parent="z"),
        view("other", "9.0.0.0/24"),
    ]
    assert [line.split("  10")[0].split("  9.")[0] for line in draw(pools, width=0)] == [
        "other",
        "top",
        "├─ z",
        "│  └─ deep",
        "└─ a",
    ]


def test_a_map_shows_shares_and_child_pools() -> None:
    pools = [
        view("p", "10.0.0.0/24", "10.0.0.0/26", "10.0.0.64/31", "10.0.0.96/28"),
        view("kid", "10.0.0.192/26", parent="p"),
    ]
    lines = list(draw(pools, width=8, symbols=ASCII))
    assert lines[1] == "|  ##-+..oo  8 × /27"


def test_a_map_has_no_more_signs_than_there_are_addresses_and_as_many_as_fit() -> None:
    small = view("p", "10.0.0.0/30", "10.0.0.0/32", "10.0.0.3/32")
    assert list(draw([small], width=8, symbols=ASCII))[1] == "   #..#  4 × /32"
    large = view("p", "10.0.0.0/24", "10.0.0.0/25")
    assert list(draw([large], width=20, symbols=ASCII))[1] == "   ########........  16 × /28"


def test_partly_used_is_never_drawn_as_free_or_full() -> None:
    nearly = view("p", "10.0.0.0/24", *(f"10.0.0.{n}/32" for n in range(255)))
    assert next(iter(list(draw([nearly], width=1, symbols=ASCII))[1:])).strip().startswith("x")
    hardly = view("p", "10.0.0.0/8", "10.0.0.1/32")
    assert list(draw([hardly], width=1, symbols=ASCII))[1].strip().startswith("-")


def test_pools_that_name_each_other_as_parents_are_all_drawn() -> None:
    pools = [
        view("a", "10.0.0.0/24", parent="b"),
        view("b", "10.0.1.0/24", parent="a"),
        view("c", "10.0.2.0/24", parent="c"),
    ]
    assert [line.split()[0] for line in draw(pools, width=0)] == ["a", "b", "c"]


def test_what_cannot_be_drawn_is_said() -> None:
    bad = PoolView(name="bad", network=None, cidr="10.0.00.0/16", parent="", strategy="Linear", members=())
    assert list(draw([bad])) == ["bad  10.0.00.0/16  (this is no CIDR)"]
    full = view("full", "10.0.0.0/30", "10.0.0.0/30", "10.0.0.0/31")
    assert next(iter(draw([full]))).endswith("100.0% used  full  OVERLAPPING")
