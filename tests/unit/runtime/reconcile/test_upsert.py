"""Create or patch when the cache is behind, and doing the same to many."""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import ObjectMeta
from quarterdeck.errors import AlreadyExists, Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.upsert import UpsertResult, create_or_patch
from tests.unit.runtime.runtimewidget import Widget, WidgetSpec

NAME = ObjectMeta(name="a", namespace="ns")


class Behind:
    """A context whose cache does not know yet what the server has."""

    def __init__(self, stored: Any) -> None:
        self.stored = stored
        self.client = self
        self.status = self
        self.writes: list[str] = []

    async def get(self, kind: type[Any], name: str, namespace: str, *, live: bool = False) -> Any:
        if not live:
            raise NotFound("not in the cache")
        return self.stored

    async def create(self, obj: Any) -> Any:
        raise AlreadyExists("it is there")

    async def patch(self, obj: Any, patch: Any) -> Any:
        self.writes.append("patch")
        return obj


def paint(draft: Any) -> None:
    draft.spec.color = "green"


async def test_what_the_cache_does_not_know_yet_is_read_from_the_server() -> None:
    context = Behind(Widget(metadata=NAME))
    done = await create_or_patch(context, Widget(metadata=NAME), paint)  # type: ignore[arg-type]  # what it needs of one
    assert done.result is UpsertResult.UPDATED
    assert context.writes == ["patch"]


async def test_a_patch_that_comes_to_nothing_is_not_sent() -> None:
    context = Behind(Widget(metadata=NAME, spec=WidgetSpec(color="green")))
    done = await create_or_patch(context, Widget(metadata=NAME), paint)  # type: ignore[arg-type]  # what it needs of one
    assert (done.obj, done.result, context.writes) == (context.stored, UpsertResult.UNCHANGED, [])


async def test_every_item_is_tried_and_each_error_stands_in_its_place() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        done.append(item)
        await asyncio.sleep(1)
        if item % 2:
            raise Conflict(str(item))

    errors: list[QuarterdeckError | None] = await attempt_all([1, 2, 3], work)
    assert done == [1, 2, 3]
    assert [str(error) if error else None for error in errors] == ["1", None, "3"]
    assert await attempt_all([], work) == []


async def test_no_more_are_tried_at_once_than_allowed() -> None:
    running = highest = 0

    async def work(item: int) -> None:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(1)
        running -= 1

    await attempt_all(range(7), work, at_once=3)
    assert highest == 3
    await attempt_all(range(70), work)
    assert highest == 32
