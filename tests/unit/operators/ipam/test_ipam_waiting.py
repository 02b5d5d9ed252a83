"""Who is woken when space returns: the oldest that fits, and no more than can be served."""

from __future__ import annotations

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic.freespace import FreeSpace
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.occupancy import Rank
from quarterdeck.operators.ipam.logic.waiting import WaitingClaims


def claim(number: int) -> Key:
    return Key("default", f"c{number:06}")


def full(cidr: str = "10.0.0.0/24") -> FreeSpace:
    space = FreeSpace(parse(cidr))
    space.carve(parse(cidr))
    return space


def filled(count: int, size: int = 28) -> WaitingClaims:
    waiting = WaitingClaims()
    for number in reversed(range(count)):
        waiting.wait(claim(number), Rank(f"{number:06}", "x"), size)
    return waiting


def release(space: FreeSpace, text: str) -> Network:
    block = parse(text)
    space.release(block)
    return block


def test_one_release_before_a_crowd_wakes_as_many_as_it_serves_and_one() -> None:
    space, waiting = full(), filled(10_000)
    woken = waiting.released(space, release(space, "10.0.0.0/27"))
    served, looks = [], 0
    while woken:
        looks += 1
        key = woken.pop()
        block = space.lowest(28)
        if block is not None:
            space.carve(block)
            served.append(key)
        else:
            waiting.wait(key, Rank("x", key.name), 28)
        woken += waiting.done(key, space)
    assert served == [claim(0), claim(1)]
    assert looks <= 3


def test_the_oldest_that_fits_goes_first_whatever_its_size() -> None:
    space, waiting = full(), WaitingClaims()
    waiting.wait(claim(0), Rank("0", ""), 24)
    waiting.wait(claim(1), Rank("1", ""), 28)
    waiting.wait(claim(2), Rank("2", ""), 26)
    assert waiting.released(space, release(space, "10.0.0.0/26")) == [claim(1)]


def test_a_claim_for_a_certain_block_is_woken_when_that_is_free() -> None:
    space, waiting = full(), WaitingClaims()
    wanted = parse("10.0.0.0/25")
    waiting.wait(claim(0), Rank("0", ""), wanted)
    waiting.wait(claim(1), Rank("1", ""), wanted)
    assert waiting.released(space, release(space, "10.0.0.0/26")) == []
    assert waiting.released(space, release(space, "10.0.0.128/26")) == []
    assert waiting.released(space, release(space, "10.0.0.64/26")) == [claim(0)]


def test_those_who_leave_are_not_woken() -> None:
    space, waiting = full(), filled(3)
    waiting.leave(claim(0))
    waiting.wait(claim(1), Rank("1", ""), 24)
    assert waiting.released(space, release(space, "10.0.0.0/28")) == [claim(2)]
    assert waiting.done(claim(2), space) == []
    waiting.leave(claim(1))
    assert waiting.is_empty


def test_a_baton_is_passed_on_by_one_who_is_gone() -> None:
    space, waiting = full(), filled(2)
    assert waiting.released(space, release(space, "10.0.0.0/28")) == [claim(0)]
    waiting.leave(claim(0))
    assert waiting.done(claim(0), space) == [claim(1)]
    assert waiting.done(claim(0), space) == []


def test_when_anything_may_be_free_every_certain_block_that_is_gets_its_oldest() -> None:
    space, waiting = full(), WaitingClaims()
    free, taken = parse("10.0.0.0/28"), parse("10.0.0.16/28")
    space.release(free)
    waiting.wait(claim(0), Rank("0", ""), free)
    waiting.wait(claim(1), Rank("1", ""), taken)
    assert waiting.released(space, None) == [claim(0)]
    assert len(waiting) == 1


def test_a_claim_for_a_block_outside_the_pool_is_woken_to_be_told() -> None:
    space, waiting = full(), WaitingClaims()
    waiting.wait(claim(0), Rank("0", ""), parse("10.0.1.0/28"))
    assert waiting.released(space, None) == [claim(0)]


def test_a_claim_that_waits_for_something_else_now_waits_once() -> None:
    space, waiting = full(), WaitingClaims()
    waiting.wait(claim(0), Rank("0", ""), parse("10.0.0.0/28"))
    waiting.wait(claim(0), Rank("0", ""), 28)
    assert len(waiting) == 1
    assert waiting.released(space, release(space, "10.0.0.0/28")) == [claim(0)]
    assert len(waiting) == 0
    assert not waiting.is_empty
    assert waiting.done(claim(0), None) == []
    assert waiting.is_empty
