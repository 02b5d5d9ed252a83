"""Chunked lists: any earlier revision, any place in the list, exact counts, whatever was written since."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from quarterdeck.apiserver.storage import Store, encode_value
from quarterdeck.apiserver.storage.order import _BLOCK, SortedNames
from quarterdeck.apiserver.storage.store import ANY

Place = tuple[str, str]
NAMESPACES = ("a", "a-b", "b", "z")


def value(number: int) -> bytes:
    return encode_value({"metadata": {"name": "x"}, "data": {"number": str(number)}})


def test_names_stay_in_order_and_are_counted_through_any_changes() -> None:
    dice = random.Random(3)
    names, expected = SortedNames(), set[str]()
    for _ in range(12 * _BLOCK):
        name = f"{dice.randrange(4 * _BLOCK):05}"
        if name in expected:
            expected.remove(name)
            names.remove(name)
        else:
            expected.add(name)
            names.add(name)
        if dice.random() < 0.002:
            after = dice.choice([None, f"{dice.randrange(4 * _BLOCK):05}"])
            behind = sorted(each for each in expected if after is None or each > after)
            assert [each for block in names.after(after) for each in block] == behind
            assert names.count_after(after) == len(behind)


@pytest.mark.parametrize("restart", [False, True])
def test_every_earlier_state_is_read_from_any_place_with_an_exact_count(
    tmp_path: Path, restart: bool
) -> None:
    dice = random.Random(5)
    states: dict[int, dict[Place, int]] = {}

    async def write() -> Store:
        store = Store(tmp_path)
        bucket = store.bucket("", "things", namespaced=True)
        now: dict[Place, int] = {}
        for number in range(300):
            place = dice.choice(NAMESPACES), f"n{dice.randrange(20)}"
            if place in now and dice.random() < 0.4:
                await store.delete(bucket, *place, expected=ANY, value=value(number))
                del now[place]
            else:
                await store.put(bucket, *place, value(number), expected=ANY)
                now[place] = number
            states[store.rev] = dict(now)
            if (
                number % 7 == 0 and number > 50
            ):  # an earlier state that has been looked at goes on being exact
                check(store, dice.choice(list(states)))
        if restart:
            await store.close()
            store = Store(tmp_path)
        return store

    def check(store: Store, rev: int) -> None:
        state = store.at(store.bucket("", "things", namespaced=True), rev)
        after = dice.choice([None, (dice.choice(NAMESPACES), f"n{dice.randrange(20)}")])
        namespace = dice.choice(["", *NAMESPACES])
        expected = sorted(
            ((space + "/", name), number)
            for (space, name), number in states[rev].items()
            if (not namespace or space == namespace)
            and (after is None or (space + "/", name) > (after[0] + "/", after[1]))
        )
        found = [
            ((entry.namespace + "/", entry.name), int(entry.document()["data"]["number"]))
            for entry in state.scan(namespace, after)
        ]
        assert found == expected
        if after is not None:
            assert state.count_after(namespace, after) == len(expected)

    async def scenario() -> None:
        store = await write()
        for _ in range(400):
            check(store, dice.choice(list(states)))
        await store.close()

    asyncio.run(scenario())
