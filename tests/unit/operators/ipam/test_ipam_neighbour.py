"""Pools that share addresses: what each leaves alone, after any sequence of changes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic.facts import PoolFacts
from quarterdeck.operators.ipam.logic.neighbour import is_inside
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.poolstate import Reservation
from quarterdeck.operators.ipam.logic.pooltable import PoolTable

from .ipamstrategy import blocks_of, member
from .test_ipam_pooltable import facts

SPACE = parse("10.0.0.0/27")
NAMES = ("p", "q", "r")
Change = Callable[[PoolTable], None]


def key(name: str) -> Key:
    return Key("default", name)


class World:
    """What exists, and a table that was told how it came about."""

    def __init__(self) -> None:
        self.table = PoolTable()
        self.table.neighbours.open()
        self.pools: dict[str, PoolFacts] = {}
        self.members: dict[str, tuple[str, Network]] = {}
        self.reserved: dict[str, tuple[str, Network]] = {}
        self.version = 0

    def put_pool(self, name: str, network: Network, parent: str) -> None:
        self.version += 1
        parent = parent if parent != name else ""
        made = facts(str(network), name=name, version=self.version, parent=parent)
        self.pools[name] = made
        self.table.put_pool(key(name), made)

    def drop_pool(self, name: str) -> None:
        self.pools.pop(name, None)
        self.table.drop_pool(key(name))

    def put_member(self, uid: str, pool: str, network: Network) -> None:
        self.version += 1
        self.members[uid] = pool, network
        self.table.put_subnet(uid, member(uid, network, pool=pool, version=self.version))

    def drop_member(self, uid: str) -> None:
        self.members.pop(uid, None)
        self.table.put_subnet(uid, None)

    def fresh(self) -> PoolTable:
        """A table that learns everything at once."""
        table = PoolTable()
        for uid, (pool, network) in self.members.items():
            table.put_subnet(uid, member(uid, network, pool=pool, version=1))
        for name, each in self.pools.items():
            table.put_pool(key(name), each)
        table.neighbours.open()
        return table

    def in_use(self, pool: str) -> set[int]:
        """Addresses that a pool must not give, by the words of the module, address by address."""
        mine, taken = self.pools[pool].network, set[int]()
        assert mine is not None
        for name, other in self.pools.items():
            if name == pool or other.network is None:
                continue
            is_below = is_inside(other, pool, self.pools.get)
            is_above = is_inside(self.pools[pool], name, self.pools.get)
            if is_below or (not is_above and other.rank < self.pools[pool].rank):
                taken |= addresses(other.network)
        for owner, network in self.members.values():
            above = owner in self.pools and is_inside(self.pools[pool], owner, self.pools.get)
            if not (owner != pool and above and network.contains(mine)):
                taken |= addresses(network)
        return taken & addresses(mine)


def addresses(network: Network) -> set[int]:
    return set(range(network.address, network.last + 1))


name = st.sampled_from(NAMES)
uid = st.sampled_from("abcd")
block = blocks_of(SPACE)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put_pool"), name, block, st.sampled_from(("", *NAMES))),
        st.tuples(st.just("drop_pool"), name),
        st.tuples(st.just("put_member"), uid, name, block),
        st.tuples(st.just("drop_member"), uid),
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(changes)
def test_what_a_pool_may_give_is_in_nobodys_use_however_it_came_about(
    history: list[tuple[str, ...]],
) -> None:
    world = World()
    for verb, *arguments in history:
        getattr(world, verb)(*arguments)
    fresh = world.fresh()
    for each in world.pools:
        state, again = world.table.state(key(each)), fresh.state(key(each))
        assert state is not None
        assert again is not None
        assert state.foreign == again.foreign
        assert state.free is not None
        free = {
            address for address in addresses(state.free.pool) if state.free.is_free(Network(address, 32, 32))
        }
        assert free.isdisjoint(world.in_use(each))
        assert world.table.neighbours.contested(key(each)) == fresh.neighbours.contested(key(each))


def test_a_block_that_is_about_to_be_given_is_left_alone_by_a_pool_that_comes_over_it() -> None:
    world = World()
    world.put_pool("p", parse("10.0.0.0/28"), "")
    world.table.reserve(key("p"), Reservation("claim", "c", parse("10.0.0.0/30")))
    world.put_pool("a", SPACE, "")  # equally old, and the first by name
    over = world.table.state(key("a"))
    assert over is not None
    assert over.free is not None
    assert not over.free.is_free(parse("10.0.0.0/30"))
    world.table.cancel(key("p"), "claim")
    assert over.free.is_free(parse("10.0.0.0/30"))


def test_nothing_is_known_before_everything_was_told_or_while_a_pool_is_indexed() -> None:
    table = PoolTable()
    table.put_pool(key("p"), facts())
    assert not table.neighbours.is_known(key("p"))
    table.neighbours.open()
    assert table.neighbours.is_known(key("p"))
    state = table.state(key("p"))
    assert state is not None
    state.describe(facts("10.0.0.0/25", version=2))
    table.neighbours.look(key("p"))
    assert not table.neighbours.is_known(key("p"))
    for _ in state.rebuild():
        pass
    table.neighbours.look(key("p"))
    assert table.neighbours.is_known(key("p"))


def test_labels_may_go_in_circles() -> None:
    pools = {each.name: each for each in (facts(name="p", parent="q"), facts(name="q", parent="p"))}
    assert is_inside(pools["p"], "q", pools.get)
    assert not is_inside(pools["p"], "r", pools.get)
