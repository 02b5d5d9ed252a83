"""The table: late and repeated news change nothing, and it is always what a rebuild would make of it."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic import poolstate, pooltable
from quarterdeck.operators.ipam.logic.audit import differences, rebuilding
from quarterdeck.operators.ipam.logic.facts import Member, PoolFacts
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.poolstate import PoolState, Reservation
from quarterdeck.operators.ipam.logic.pooltable import PoolTable

from .ipamstrategy import blocks_of, member

POOL = Key("default", "p")
RANGE = parse("10.0.0.0/26")


def facts(
    cidr: str = "10.0.0.0/26", *, name: str = "p", uid: str = "", version: int = 1, parent: str = ""
) -> PoolFacts:
    return PoolFacts(
        uid=uid or name,
        version=version,
        generation=version,
        cidr=cidr,
        network=parse(cidr),
        problem="",
        default_size=24,
        min_size=0,
        max_size=0,
        strategy="Linear",
        parent=parent,
        is_deleting=False,
        created="2030-01-01T00:00:00Z",
        name=name,
    )


class Log:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.changed: list[Key] = []
        self.returned: list[tuple[Key, Network | None]] = []
        self.rivals: list[Key] = []
        self.emptied: list[Key] = []
        self.ranges: list[Key] = []

    def pool_changed(self, pool: Key) -> None:
        self.changed.append(pool)

    def space_returned(self, pool: Key, network: Network | None) -> None:
        self.returned.append((pool, network))

    def contested(self, subnet: Key) -> None:
        self.rivals.append(subnet)

    def pool_emptied(self, pool: Key) -> None:
        self.emptied.append(pool)

    def range_changed(self, pool: Key) -> None:
        self.ranges.append(pool)


def rebuilt(state: PoolState) -> PoolState:
    steps = rebuilding(state)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            fresh: PoolState = end.value
            return fresh


def book_of(table: PoolTable, key: Key = POOL) -> PoolState:
    state = table.state(key)
    assert state is not None
    return state


#: states of Subnets: uid, block, version; deletions have no block
states = st.lists(
    st.tuples(st.integers(0, 5), st.none() | blocks_of(RANGE), st.integers(1, 6)), min_size=1, max_size=25
)


@given(states, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_duplicated_and_reordered_news_end_where_the_news_in_order_end(
    news: list[tuple[int, Network | None, int]], dice: random.Random
) -> None:
    # One state per UID and version, deletions last: that is what a server can send.
    unique = {(uid, version if block is not None else 99): block for uid, block, version in news}
    ordered = [
        (f"u{uid}", block, version) for (uid, version), block in sorted(unique.items(), key=lambda i: i[0])
    ]
    shuffled = [each for each in ordered for _ in range(dice.randint(1, 3))]
    dice.shuffle(shuffled)
    ends = []
    for sequence in (ordered, shuffled):
        table = PoolTable()
        table.put_pool(POOL, facts())
        for uid, block, version in sequence:
            if block is None:
                table.drop_subnet(uid)
            else:
                table.put_subnet(uid, member(uid, block, version=version))
        state = book_of(table)
        assert state.is_sound(rebuilt(state))
        ends.append((dict(state.members), state.measure()))
    assert ends[0] == ends[1]


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "reserve", "cancel", "child", "orphan", "resize"]), blocks_of(RANGE)
    ),
    max_size=30,
)


@given(operations)
@settings(max_examples=200)
def test_incremental_state_equals_a_rebuild_at_every_quiet_point(steps: list[tuple[str, Network]]) -> None:
    table, version = PoolTable(), 1
    table.put_pool(POOL, facts())
    for number, (what, block) in enumerate(steps):
        version += 1
        state = book_of(table)
        known = sorted(state.members)
        if what == "put":
            table.put_subnet(f"u{number}", member(f"u{number}", block, version=version))
        elif what == "drop" and known:
            table.drop_subnet(known[number % len(known)])
        elif what == "reserve" and state.free is not None and state.free.is_free(block):
            table.reserve(POOL, Reservation(f"claim{number}", "c", block))
        elif what == "cancel" and state.reservations:
            table.cancel(POOL, sorted(state.reservations)[0])
        elif what == "child":
            child = facts(str(block), name=f"kid{number}", version=version, parent="p")
            table.put_pool(Key("default", child.name), child)
        elif what == "orphan" and state.children:
            name = sorted(child.name for child in state.children.values())[0]
            table.drop_pool(Key("default", name))
        elif what == "resize":
            table.put_pool(POOL, facts(f"10.0.0.0/{26 - number % 3}", uid="p", version=version))
        state = book_of(table)
        assert state.is_sound(rebuilt(state))
    # Everything goes: nothing is left behind.
    for uid in sorted(book_of(table).members):
        table.drop_subnet(uid)
    for claim in sorted(book_of(table).reservations):
        table.cancel(POOL, claim)
    for kid in list(book_of(table).children.values()):
        table.drop_pool(Key("default", kid.name))
    state = book_of(table)
    assert state.free is not None
    assert state.free.is_untouched
    table.drop_pool(POOL)
    assert table.state(POOL) is None


def test_own_creates_are_known_at_once_and_their_echo_is_no_news() -> None:
    log = Log()
    table = PoolTable(log)
    table.put_pool(POOL, facts())
    block = parse("10.0.0.0/28")
    table.reserve(POOL, Reservation("claim", "c-a", block))
    table.confirm(POOL, "claim", member("a", block, version=7))
    revision = book_of(table).revision
    log.changed.clear()
    table.put_subnet("a", member("a", block, version=7))
    assert (book_of(table).revision, log.changed) == (revision, [])
    assert book_of(table).of_cluster("c-a")[0].uid == "a"


def test_a_reservation_is_not_shown_in_the_status() -> None:
    table = PoolTable()
    table.put_pool(POOL, facts())
    table.reserve(POOL, Reservation("claim", "c", parse("10.0.0.0/27")))
    state = book_of(table)
    measure = state.measure()
    assert measure is not None
    assert measure.free_addresses == 64
    assert state.free is not None
    assert state.free.addresses() == 32


def test_moving_a_subnet_concerns_both_pools() -> None:
    log = Log()
    table = PoolTable(log)
    table.put_subnet("a", member("a", parse("10.0.0.0/28"), version=1))
    log.changed.clear()
    table.put_subnet("a", member("a", parse("10.0.0.0/28"), pool="q", version=2))
    assert set(log.changed) == {POOL, Key("default", "q")}
    assert table.state(POOL) is None


def test_members_of_a_missing_pool_count_when_it_appears() -> None:
    table = PoolTable()
    table.put_subnet("a", member("a", parse("10.0.0.0/28")))
    assert not book_of(table).is_indexed
    table.put_pool(POOL, facts())
    assert book_of(table).is_good(book_of(table).members["a"])


def test_members_hear_of_a_range_that_changes_and_of_nothing_else() -> None:
    log = Log()
    table = PoolTable(log)
    table.put_pool(POOL, facts())
    table.put_pool(POOL, facts(version=2))
    assert log.ranges == [POOL]
    table.put_pool(POOL, facts("10.0.0.0/25", version=3))
    table.drop_pool(POOL)
    assert log.ranges == [POOL] * 3


def test_the_younger_of_two_overlapping_members_is_the_bad_one() -> None:
    log = Log()
    table = PoolTable(log)
    table.put_pool(POOL, facts())
    # The younger one is seen first, as after a restart.
    table.put_subnet("young", member("young", parse("10.0.0.0/28"), created="2030-01-02T00:00:00Z"))
    table.put_subnet("old", member("old", parse("10.0.0.0/27")))
    state = book_of(table)
    assert [state.is_good(state.members[uid]) for uid in ("young", "old")] == [False, True]
    assert log.rivals == [Key("default", "s-young")]
    table.drop_subnet("old")
    assert state.is_good(state.members["young"])
    assert log.rivals == [Key("default", "s-young")] * 2


@pytest.mark.parametrize(
    "network", [None, parse("10.1.0.0/28"), parse("2001:db8::/64"), parse("10.0.0.0/20")]
)
def test_a_member_that_is_not_inside_its_pool_is_bad(network: Network | None) -> None:
    table = PoolTable()
    table.put_pool(POOL, facts())
    table.put_subnet("a", member("a", network))
    state = book_of(table)
    assert not state.is_good(state.members["a"])
    assert state.outside == {"a"}


def test_child_pools_keep_the_allocator_out_but_not_the_status() -> None:
    table = PoolTable()
    table.put_pool(POOL, facts())
    table.put_subnet("a", member("a", parse("10.0.0.0/28")))
    kid = Key("default", "kid")
    table.put_pool(kid, facts("10.0.0.0/27", name="kid", parent="p"))
    state = book_of(table)
    measure = state.measure()
    assert state.free is not None
    assert measure is not None
    assert (state.free.addresses(), measure.free_addresses) == (32, 48)
    assert str(state.conflict(parse("10.0.0.16/28"))) == "10.0.0.0/27"
    table.drop_subnet("a")
    assert state.free.addresses() == 32  # the range was reserved twice and counts once
    table.drop_pool(kid)
    assert book_of(table).free is not None
    assert book_of(table).free.is_untouched


def test_a_big_pool_is_indexed_in_steps_while_members_come_and_go() -> None:
    table = PoolTable()
    blocks = [Network(parse("10.0.0.0/8").address + (index << 8), 24, 32) for index in range(6000)]
    for index, block in enumerate(blocks):
        table.put_subnet(f"u{index}", member(f"u{index}", block))
    table.put_pool(POOL, facts("10.0.0.0/8"))
    state = book_of(table)
    assert state.is_behind
    assert not state.is_indexed
    steps = state.rebuild()
    next(steps)
    table.drop_subnet("u0")
    table.drop_subnet("u5999")
    table.put_subnet("late", member("late", parse("10.200.0.0/24")))
    for _ in steps:
        pass
    assert state.is_indexed
    assert state.is_sound(rebuilt(state))
    assert len(state.members) == 5999


def test_another_change_of_the_range_ends_a_rebuild() -> None:
    table = PoolTable()
    for index in range(5001):
        table.put_subnet(f"u{index}", member(f"u{index}", Network(167772160 + (index << 8), 24, 32)))
    table.put_pool(POOL, facts("10.0.0.0/8"))
    state = book_of(table)
    first = state.rebuild()
    next(first)
    table.put_pool(POOL, facts("10.0.0.0/12", uid="p", version=2))
    assert list(first) == []
    assert not state.is_indexed
    for _ in state.rebuild():
        pass
    assert state.is_indexed
    assert len(state.outside) == 5001 - 4096


def test_an_audit_finds_what_the_ledger_has_wrong() -> None:
    table = PoolTable()
    table.put_pool(POOL, facts())
    listed = [member("a", parse("10.0.0.0/28"), version=5), member("b", parse("10.0.0.16/28"), version=6)]
    table.put_subnet("a", member("a", parse("10.0.0.32/28"), version=5))
    table.put_subnet("ghost", member("ghost", parse("10.0.0.48/28"), version=2))
    table.put_subnet("younger", member("younger", parse("10.0.0.0/30"), version=50))
    found: dict[str, Member | None] = {
        each.uid: each.listed for each in differences(book_of(table), listed, version=9)
    }
    assert found == {"a": listed[0], "b": listed[1], "ghost": None}


def test_a_subnet_has_the_phase_that_its_pool_gives_it() -> None:
    table = PoolTable()
    inside, outside = member("in", RANGE), member("out", parse("10.9.0.0/28"))
    assert table.phase(None) == "Failed"
    table.put_subnet(inside.uid, inside)
    assert table.phase(inside) == "Failed", "there is no such pool"
    table.put_pool(POOL, facts())
    table.put_subnet(outside.uid, outside)
    assert table.phase(inside) == "Allocated"
    assert table.phase(outside) == "Failed"
    unreadable = msgspec.structs.replace(facts(version=2), cidr="nonsense", network=None)
    table.put_pool(POOL, unreadable)
    assert table.phase(outside) == "Allocated", "outside of what, nobody can say"


def test_a_pool_is_empty_when_nothing_holds_any_of_it() -> None:
    log = Log()
    table = PoolTable(log)
    table.put_pool(POOL, facts())
    table.put_pool(Key("default", "q"), facts("10.0.0.0/28", name="q", parent="p"))
    one = member("a", parse("10.0.0.16/28"))
    table.put_subnet("a", one)
    log.emptied.clear()
    table.drop_subnet("a")
    assert log.emptied == [], "its child holds a part"
    table.put_subnet("b", member("b", parse("10.0.0.32/28")))
    table.drop_pool(Key("default", "q"))
    assert POOL not in log.emptied
    table.drop_subnet("b")
    assert log.emptied[-1] == POOL


def test_a_subnet_that_is_gone_stays_gone_until_so_many_others_have_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pooltable, "_REMEMBERED", 2)
    table = PoolTable(Log())
    for uid in ("a", "b"):
        table.drop_subnet(uid)
    table.put_subnet("a", member("a", parse("10.0.0.0/28")))
    assert table.member("a") is None, "late news of what is gone"
    table.drop_subnet("c")
    table.put_subnet("a", member("a", parse("10.0.0.0/28")))
    assert table.member("a") is not None
    table.put_subnet("b", member("b", parse("10.0.0.16/28")))
    assert table.member("b") is None


@pytest.mark.parametrize(
    ("changes", "allows"),
    [
        ({}, False),
        ({"version": 9, "generation": 9}, False),
        ({"strategy": "Buddy"}, False),
        ({"uid": "other"}, True),
        ({"network": parse("10.0.0.0/25")}, True),
        ({"min_size": 1}, True),
        ({"max_size": 1}, True),
        ({"default_size": 1}, True),
    ],
    ids=repr,
)
def test_a_pool_allows_more_when_what_claims_are_measured_by_changed(
    changes: dict[str, object], allows: bool
) -> None:
    assert pooltable._allows_more(msgspec.structs.replace(facts(), **changes), facts()) is allows


def test_a_state_that_changes_while_it_is_rebuilt_is_rebuilt_as_it_became(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poolstate, "STEP", 1)
    state = PoolState(POOL)
    state.facts = facts()
    for uid, block in (("kept", "10.0.0.0/28"), ("goes", "10.0.0.16/28"), ("moves", "10.0.0.32/28")):
        state.add_member(member(uid, parse(block)))
    steps = rebuilding(state)
    next(steps)
    state.remove_member("goes")
    state.remove_member("moves")
    state.add_member(member("moves", parse("10.0.0.48/28")))
    state.add_member(member("new", parse("10.0.0.16/29")))
    fresh = None
    while fresh is None:
        try:
            next(steps)
        except StopIteration as end:
            fresh = end.value
    assert fresh.members == state.members


def test_after_a_restore_of_the_server_the_table_has_what_it_has() -> None:
    table = PoolTable()
    table.put_pool(POOL, facts(version=9))
    table.put_subnet("a", member("a", parse("10.0.0.0/30"), version=8))
    table.drop_subnet("b")
    back = member("b", parse("10.0.0.4/30"), version=3)
    table.put_subnet("b", back)
    assert table.differs("b", back)  # it may be late news, and somebody has to ask
    table.restore_subnet(back)
    assert not table.differs("b", back)
    older = member("a", parse("10.0.0.8/30"), version=2)
    table.put_subnet("a", older)
    assert table.differs("a", older)
    table.restore_subnet(older)
    table.put_pool(POOL, facts("10.0.0.0/25", version=4))
    state = table.state(POOL)
    assert state is not None
    assert state.facts == facts(version=9)
    table.put_pool(POOL, facts("10.0.0.0/25", version=4), is_certain=True)
    assert state.facts == facts("10.0.0.0/25", version=4)
    assert sorted(each.network or RANGE for each in state.members.values()) == [
        parse("10.0.0.4/30"),
        parse("10.0.0.8/30"),
    ]
