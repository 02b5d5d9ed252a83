"""A handler that fails: what is kept for it, in which order it comes, and what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.registration import HANDLER_TIMEOUT, Registration
from quarterdeck.runtime.cache.store import Change, Delta


def entry(name: str, version: int, uid: str = "u") -> Entry:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return EntryFactory().make(json.dumps({"metadata": metadata}).encode())


def added(name: str, version: int, uid: str = "u") -> Delta:
    return Delta(Change.ADDED, None, entry(name, version, uid))


def updated(name: str, version: int) -> Delta:
    return Delta(Change.UPDATED, entry(name, version - 1), entry(name, version))


def deleted(name: str, version: int, uid: str = "u") -> Delta:
    return Delta(Change.DELETED, entry(name, version, uid), None)


class Handler:
    """Fails on one object until it is mended; writes down what it has taken."""

    def __init__(self) -> None:
        self.is_mended = False
        self.calls = 0
        self.taken: list[str] = []

    def handle(self, delta: Delta) -> None:
        if delta.entry.name == "bad":
            self.calls += 1
            if not self.is_mended:
                raise KeyError("not yet")
        old = delta.old.resource_version if delta.old is not None else ""
        new = delta.new.resource_version if delta.new is not None else ""
        self.taken.append(f"{delta.entry.name} {delta.change.value} {old}-{new}")


@asynccontextmanager
async def registered(handler: Handler) -> AsyncIterator[Registration]:
    made = Registration(handler, name="test", observe=lambda _: None, failed=lambda: None)
    task = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        made.close()
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("deltas", "taken"),
    [
        ([added("bad", 1), *(updated("bad", n) for n in range(2, 200))], ["bad added -199"]),
        ([updated("bad", 5), *(updated("bad", n) for n in range(6, 100))], ["bad updated 4-99"]),
        ([added("bad", 1), deleted("bad", 2)], ["bad deleted 2-"]),
        ([updated("bad", 5), deleted("bad", 6)], ["bad updated 4-5", "bad deleted 6-"]),
        (
            [updated("bad", 5), deleted("bad", 6), added("bad", 7, "v"), updated("bad", 8)],
            ["bad updated 4-5", "bad deleted 6-", "bad added -8"],
        ),
    ],
)
async def test_changes_of_an_object_that_failed_become_few_and_keep_their_order(
    deltas: list[Delta], taken: list[str]
) -> None:
    handler = Handler()
    async with registered(handler) as registration:
        for delta in deltas:
            registration.push([delta])
        await asyncio.sleep(1)
        assert registration.statistics().retrying == 1
        registration.push([added("good", 1)])
        await asyncio.sleep(0.01)
        assert handler.taken == ["good added -1"], "others go on"
        handler.is_mended = True
        await asyncio.sleep(60)
        assert handler.taken == ["good added -1", *taken]
        assert registration.statistics().retrying == 0


async def test_an_object_that_comes_and_goes_for_ever_keeps_a_handful_of_changes() -> None:
    handler = Handler()
    async with registered(handler) as registration:
        registration.push([updated("bad", 1)])
        for number in range(500):
            registration.push([deleted("bad", number, str(number)), added("bad", number, str(number + 1))])
        await asyncio.sleep(1)
        handler.is_mended = True
        await asyncio.sleep(60)
        assert len(handler.taken) <= 4
        assert handler.taken[-1] == "bad added -499"


async def test_a_later_change_is_tried_at_once_and_not_behind_the_wait() -> None:
    handler = Handler()
    async with registered(handler) as registration:
        registration.push([added("bad", 1)])
        await asyncio.sleep(300)  # the waits have grown to half a minute
        handler.is_mended = True
        registration.push([updated("bad", 2)])
        await asyncio.sleep(0.01)
        assert handler.taken == ["bad added -2"]


async def test_a_handler_that_hangs_is_given_up_and_tried_again() -> None:
    class Slow(Handler):
        async def wait(self) -> None:
            self.calls += 1
            if self.calls == 1:
                await asyncio.get_running_loop().create_future()

        def handle(self, delta: Delta) -> object:  # type: ignore[override]
            return self.wait()

    handler = Slow()
    async with registered(handler) as registration:
        registration.push([added("bad", 1)])
        await asyncio.sleep(HANDLER_TIMEOUT + 5)
        assert handler.calls == 2
        assert registration.statistics().failures == 1
