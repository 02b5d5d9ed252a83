"""The state of one pool: what overlaps what, and when there is news for its status."""

from __future__ import annotations

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic.facts import Child, PoolFacts
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.poolstate import PoolState, Reservation

from .ipamstrategy import member

ONE, TWO, BOTH = parse("10.0.0.0/28"), parse("10.0.0.16/28"), parse("10.0.0.0/27")


def facts(cidr: str = "10.0.0.0/24") -> PoolFacts:
    return PoolFacts(
        uid="p",
        version=1,
        generation=1,
        cidr=cidr,
        network=parse(cidr),
        problem="",
        default_size=28,
        min_size=0,
        max_size=0,
        strategy="Linear",
        parent="",
        is_deleting=False,
        created="2030-01-01T00:00:00Z",
        name="p",
    )


def state(*, indexed: bool = True) -> PoolState:
    made = PoolState(Key("default", "p"))
    made.describe(facts())
    if indexed:
        for _ in made.rebuild():
            pass
    return made


def test_a_member_that_overlaps_is_found_unless_it_is_excepted() -> None:
    made = state()
    one = member("a", ONE)
    made.add_member(one)
    assert made.overlapping_member(BOTH) is one
    assert made.overlapping_member(BOTH, but="a") is None
    assert made.overlapping_member(TWO) is None


def test_a_reservation_is_a_conflict_but_no_member() -> None:
    made = state()
    made.reserve(Reservation("ns/claim", "c", ONE))
    assert made.overlapping_member(ONE) is None
    assert made.conflict(ONE) == ONE
    assert made.cancel("ns/claim") == Reservation("ns/claim", "c", ONE)
    assert made.conflict(ONE) is None
    assert made.cancel("ns/claim") is None


def test_a_child_pool_is_a_conflict_until_it_is_gone() -> None:
    made = state()
    child = Child("k", "k", ONE, "2030-01-01T00:00:00Z")
    made.put_child(child)
    assert made.conflict(BOTH) == ONE
    assert made.overlapping_member(BOTH) is None
    assert made.drop_child("k") == child
    assert made.conflict(BOTH) is None
    assert made.drop_child("k") is None


def test_of_two_child_pools_the_other_one_stays_guarded() -> None:
    made = state()
    made.put_child(Child("k", "k", ONE, "1"))
    made.put_child(Child("l", "l", TWO, "2"))
    made.drop_child("k")
    assert (made.conflict(ONE), made.conflict(TWO)) == (None, TWO)


def test_a_child_pool_that_moves_frees_its_old_range() -> None:
    made = state()
    made.put_child(Child("k", "k", ONE, "1"))
    made.put_child(Child("k", "k", TWO, "1"))
    assert (made.conflict(ONE), made.conflict(TWO)) == (None, TWO)


def test_a_child_pool_that_says_the_same_again_is_no_news() -> None:
    made = state()
    made.put_child(Child("k", "k", ONE, "1"))
    made.confirmed = made.revision
    made.put_child(Child("k", "k", ONE, "1"))
    assert not made.has_news


def test_every_change_that_the_status_shows_is_news() -> None:
    made = state()
    for change in (
        lambda: made.add_member(member("a", ONE)),
        lambda: made.remove_member("a"),
        lambda: made.put_child(Child("k", "k", ONE, "1")),
        lambda: made.drop_child("k"),
        lambda: made.describe(facts()),
        lambda: [*made.rebuild()],
    ):
        made.confirmed = made.revision
        assert not made.has_news
        change()
        assert made.has_news


def test_without_an_index_nothing_is_known_to_overlap() -> None:
    made = state(indexed=False)
    made.add_member(member("a", ONE))
    assert (made.is_indexed, made.is_behind) == (False, True)
    assert made.overlapping_member(ONE) is None
    assert made.conflict(ONE) is None
    assert made.measure() is None
    assert made.rivals(made.members["a"]) == []


def test_another_range_puts_the_index_behind() -> None:
    made = state()
    assert (made.is_indexed, made.is_behind) == (True, False)
    made.describe(facts())
    assert made.is_indexed
    made.describe(facts("10.0.0.0/23"))
    assert (made.is_indexed, made.is_behind) == (False, True)
    made.describe(None)
    assert (made.is_indexed, made.is_behind) == (False, False)


def test_members_of_a_cluster_come_oldest_first_and_go_one_by_one() -> None:
    made = state()
    members = [
        msgspec.structs.replace(member(uid, network, created=created), cluster_id="shared")
        for uid, network, created in (
            ("b", TWO, "2030-01-03"),
            ("a", ONE, "2030-01-01"),
            ("c", parse("10.0.0.32/28"), "2030-01-02"),
        )
    ]
    for each in members:
        made.add_member(each)
    assert [each.uid for each in made.of_cluster("shared")] == ["a", "c", "b"]
    for uid, left in (("a", {"b", "c"}), ("c", {"b"}), ("b", set())):
        made.remove_member(uid)
        assert {each.uid for each in made.of_cluster("shared")} == left
    assert made.of_cluster("nobody") == []


def test_a_book_is_empty_when_nothing_is_left_in_it() -> None:
    made = PoolState(Key("default", "p"))
    assert made.is_empty
    made.reserve(Reservation("ns/claim", "c", ONE))
    assert not made.is_empty
    assert made.reservation_of_cluster("c") == Reservation("ns/claim", "c", ONE)
    assert made.reservation_of_cluster("d") is None
    made.cancel("ns/claim")
    assert made.is_empty


def test_the_elder_of_two_that_overlap_has_none() -> None:
    made = state()
    old, young = member("a", ONE, created="2030-01-01"), member("b", BOTH, created="2030-01-02")
    for each in (old, young):
        made.add_member(each)
    assert made.elder(young) is old
    assert made.elder(old) is None
    twin = msgspec.structs.replace(old, uid="z")
    made.add_member(twin)
    assert made.elder(old) is None, "of the same age and name, neither is older"


def test_a_child_pool_without_a_range_guards_nothing_and_goes_like_any_other() -> None:
    made = state()
    made.put_child(Child("x", "x", None, "2030-01-01"))
    made.put_child(Child("y", "y", TWO, "2030-01-01"))
    assert made.drop_child("x") is not None
    assert made.conflict(TWO) == TWO
    assert made.drop_child("never there") is None


def test_a_state_is_sound_if_each_of_its_views_is() -> None:
    def made(*blocks: Network, children: tuple[Network, ...] = ()) -> PoolState:
        found = state()
        for number, block in enumerate(blocks):
            found.add_member(member(f"m{number}", block))
        for number, block in enumerate(children):
            found.put_child(Child(f"c{number}", f"c{number}", block, "2030-01-01"))
        return found

    assert made(ONE).is_sound(made(ONE))
    assert not made(ONE).is_sound(made(TWO))
    assert made(ONE, children=(TWO,)).is_sound(made(ONE, children=(TWO,)))
    assert not made(ONE, children=(TWO,)).is_sound(made(ONE))
    outside = parse("10.9.0.0/28")
    assert not made(ONE, outside).is_sound(made(ONE))
    assert not made(ONE).is_sound(PoolState(Key("default", "p")))
