"""The free-space index does what counting addresses one by one does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.operators.ipam.logic.freespace import FreeSpace, Occupied
from quarterdeck.operators.ipam.logic.network import Network, parse

from .ipamstrategy import POOLS, addresses, aligned, blocks_of, uncovered


class Pair:
    """The index, and the blocks that were taken."""

    def __init__(self, pool: Network) -> None:
        self.pool = pool
        self.space = FreeSpace(pool)
        self.taken: set[Network] = set()

    @property
    def free(self) -> set[int]:
        return uncovered(self.pool, self.taken)

    def check(self) -> None:
        found: set[int] = set()
        for block in self.space.blocks():
            assert found.isdisjoint(addresses(block))
            found |= set(addresses(block))
        assert found == self.free
        assert self.space.addresses() == len(found)
        assert self.space.is_untouched == (not self.taken)
        for prefix in range(self.pool.prefix, self.pool.width + 1):
            blocks = aligned(self.pool, found, prefix)
            assert self.space.fits(prefix) == bool(blocks)
            assert self.space.lowest(prefix) == (blocks[0] if blocks else None)


operations = st.sampled_from(POOLS).flatmap(
    lambda pool: st.tuples(
        st.just(pool), st.lists(st.tuples(st.integers(0, 3), blocks_of(pool)), max_size=30)
    )
)


@given(operations)
@settings(max_examples=150)
def test_any_history_of_carving_and_releasing(steps: tuple[Network, list[tuple[int, Network]]]) -> None:
    pool, history = steps
    pair = Pair(pool)
    for choice, block in history:
        if choice == 0 and pair.taken:
            gone = sorted(pair.taken)[hash(block) % len(pair.taken)]
            pair.taken.remove(gone)
            pair.space.release(gone)
        elif choice == 1:
            found = pair.space.lowest(block.prefix)
            if found is not None:
                pair.space.carve(found)
                pair.taken.add(found)
        elif choice == 2:
            found = pair.space.best_fit(block.prefix)
            if found is not None:
                pair.space.carve(found)
                pair.taken.add(found)
        elif pair.free.issuperset(addresses(block)):
            assert pair.space.is_free(block)
            pair.space.carve(block)
            pair.taken.add(block)
        else:
            assert not pair.space.is_free(block)
            with pytest.raises(Occupied):
                pair.space.carve(block)
        pair.check()
    again = FreeSpace(pool)
    for block in pair.taken:
        again.carve(block)
    assert again == pair.space
    assert pair.space.copy() == pair.space


@given(operations)
@settings(max_examples=100)
def test_best_fit_breaks_the_smallest_block_that_will_do(
    steps: tuple[Network, list[tuple[int, Network]]],
) -> None:
    pool, history = steps
    space = FreeSpace(pool)
    for _, block in history:
        if space.is_free(block):
            space.carve(block)
    for prefix in range(pool.prefix, pool.width + 1):
        maximal = [block for block in space.blocks() if block.prefix <= prefix]
        if not maximal:
            assert space.best_fit(prefix) is None
            continue
        smallest = max(block.prefix for block in maximal)
        lowest = min(block.address for block in maximal if block.prefix == smallest)
        assert space.best_fit(prefix) == Network(lowest, prefix, pool.width)
        assert space.largest == min(
            (block for block in space.blocks()), key=lambda block: (block.prefix, block.address)
        )


def test_everything_released_is_the_whole_pool_again() -> None:
    pool = parse("10.0.0.0/16")
    space, blocks = FreeSpace(pool), []
    for prefix in (28, 24, 30, 17, 26):
        block = space.lowest(prefix)
        assert block is not None
        space.carve(block)
        blocks.append(block)
    for block in reversed(blocks):
        space.release(block)
    assert space == FreeSpace(pool)
    assert space.is_untouched


def test_heaps_do_not_grow_with_history() -> None:
    space, block = FreeSpace(parse("10.0.0.0/8")), parse("10.255.255.240/28")
    for _ in range(10_000):
        space.carve(block)
        space.release(block)
    assert sum(map(len, space._heaps)) < 5000


def test_linear_and_buddy_differ_as_the_design_says() -> None:
    space = FreeSpace(parse("10.0.0.0/22"))
    space.carve(parse("10.0.2.0/24"))
    assert (str(space.lowest(24)), str(space.best_fit(24))) == ("10.0.0.0/24", "10.0.3.0/24")


def test_a_block_bigger_than_the_pool_never_fits() -> None:
    space = FreeSpace(parse("10.0.0.0/24"))
    assert not space.fits(16)
    assert space.lowest(16) is None
    assert space.best_fit(16) is None
