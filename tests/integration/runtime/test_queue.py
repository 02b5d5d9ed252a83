"""The work queue as a controller on a server shows it; the queue alone has more tests."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import pairwise

import pytest

from quarterdeck.api import Key
from quarterdeck.runtime import Context, Manager, Requeue, Result
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import TestCluster, eventually, run_until_idle

from .gadget import Gadget, gadget

pytestmark = pytest.mark.cluster(crds=[Gadget])


def key(name: str) -> Key:
    return Key("default", name)


async def test_same_key_never_runs_twice_at_once_under_100000_adds_32_workers_and_failures(
    cluster: TestCluster, manager: Manager
) -> None:
    chance = random.Random(1)
    running: set[Key] = set()
    wanted: set[Key] = set()
    runs: Counter[str] = Counter()
    most = 0

    async def reconcile(ctx: Context[Gadget]) -> Result | None:
        nonlocal most
        assert ctx.key not in running, f"{ctx.key} runs twice"
        running.add(ctx.key)
        most = max(most, len(running))
        wanted.discard(ctx.key)
        runs[ctx.key.name] += 1
        try:
            await asyncio.sleep(chance.random() / 100)
            if chance.random() < 0.2:
                raise ValueError("forced")
            return Requeue(after=0.001) if chance.random() < 0.1 else None
        finally:
            running.remove(ctx.key)

    names = [f"g{i}" for i in range(50)]
    for name in names:
        await cluster.client.create(gadget(name))
    controller = manager.controller(Gadget).options(max_concurrent_reconciles=32).build(reconcile)
    manager.add(controller)
    await cluster.start(manager)
    await eventually(lambda: len(runs) == 50)
    for _ in range(50):
        for _ in range(2000):
            chosen = key(chance.choice(names))
            wanted.add(chosen)
            controller.queue.add(chosen, priority=chance.choice((-100, 0, 0, 5)))
        await asyncio.sleep(chance.random() / 50)
    await run_until_idle(manager)
    assert wanted == set(), "every key ran after it was last added"
    assert most == 32
    assert sum(runs.values()) < 20_000, "100,000 adds were merged"


async def test_add_during_processing_yields_exactly_one_more_run_after_done(
    cluster: TestCluster, manager: Manager, clock: LoopClock
) -> None:
    runs: list[tuple[float, int]] = []

    async def reconcile(ctx: Context[Gadget]) -> None:
        runs.append((clock.monotonic(), ctx.obj.spec.size))
        await asyncio.sleep(10)

    manager.add(manager.controller(Gadget).build(reconcile))
    await cluster.start(manager)
    made = await cluster.client.create(gadget("a"))
    await eventually(lambda: runs)
    for size in range(1, 6):
        made = await cluster.client.update(made.evolve(spec=made.spec.evolve(size=size)))
        await asyncio.sleep(1)
    await run_until_idle(manager)
    assert [size for _, size in runs] == [0, 5]
    assert runs[1][0] - runs[0][0] == pytest.approx(10), "at once when the first had ended"


async def test_earliest_due_highest_priority_first_in_first_out_and_to_the_back_of_a_new_band(
    cluster: TestCluster, manager: Manager
) -> None:
    order: list[str] = []
    gate = asyncio.Event()

    async def reconcile(ctx: Context[Gadget]) -> None:
        order.append(ctx.key.name)
        if ctx.key.name == "gate":
            await gate.wait()

    names = ["low1", "low2", "mid1", "mid2", "raised", "late", "soon"]
    for name in names:
        await cluster.client.create(gadget(name))
    options = {"max_concurrent_reconciles": 1, "age_rate": 0.0}
    controller = manager.controller(Gadget).options(**options).build(reconcile)  # type: ignore[arg-type]
    manager.add(controller)
    await cluster.start(manager)
    await run_until_idle(manager)
    await cluster.client.create(gadget("gate"))
    await eventually(lambda: order[-1] == "gate")
    order.clear()
    queue = controller.queue
    queue.add(key("late"), after=600.0, priority=90)
    queue.add(key("soon"), after=600.0)
    queue.add(key("soon"), after=5.0)  # the earlier of the two
    queue.add(key("raised"), priority=-5)
    for name in ("low1", "low2"):
        queue.add(key(name), priority=-5)
    for name in ("mid1", "mid2"):
        queue.add(key(name), priority=0)
    queue.add(key("low1"), priority=-50)  # the higher of the two
    queue.add(key("raised"), priority=0)  # to the back of its new band
    gate.set()
    await run_until_idle(manager, horizon=30.0)
    assert order == ["mid1", "mid2", "raised", "low1", "low2", "soon"]
    queue.add(key("late"), priority=-100)  # now, with the priority it had
    await run_until_idle(manager)
    assert order[-1] == "late"


async def test_back_off_doubles_from_5_ms_to_its_cap_and_success_or_requeue_after_reset_it(
    cluster: TestCluster, manager: Manager, clock: LoopClock
) -> None:
    runs: list[tuple[float, int]] = []
    plan: list[str] = []

    async def reconcile(ctx: Context[Gadget]) -> Result | None:
        runs.append((clock.monotonic(), ctx.attempt))
        step = plan.pop(0) if plan else "done"
        if step == "fail":
            raise ValueError("forced")
        return Requeue(after=7.0) if step == "later" else None

    controller = manager.controller(Gadget).options(backoff_cap=1.0).build(reconcile)
    manager.add(controller)
    await cluster.start(manager)
    plan[:] = ["fail"] * 11 + ["done"]
    await cluster.client.create(gadget("a"))
    await run_until_idle(manager, horizon=2.0)
    gaps = [after[0] - before[0] for before, after in pairwise(runs)]
    expected = [min(0.005 * 2**i, 1.0) for i in range(11)]
    assert len(gaps) == 11
    assert all(0.9 * want <= gap <= 1.1 * want for gap, want in zip(gaps, expected, strict=True)), gaps
    assert [attempt for _, attempt in runs] == list(range(12))

    runs.clear()
    plan[:] = ["fail", "later", "fail", "done"]
    controller.queue.add(key("a"))
    await run_until_idle(manager, horizon=8.0)
    assert [attempt for _, attempt in runs] == [0, 1, 0, 1], "neither success nor requeue-after is a failure"
    assert runs[2][0] - runs[1][0] == pytest.approx(7.0)
    assert runs[3][0] - runs[2][0] < 0.006, "the back-off begins anew"


@pytest.mark.parametrize("ageing", [True, False], ids=["ageing", "strict bands"])
async def test_low_priority_initial_list_is_not_starved_with_ageing_and_is_without(
    cluster: TestCluster, manager: Manager, ageing: bool
) -> None:
    """Urgent keys arrive faster than the one worker can serve them, all the time."""
    seen: Counter[str] = Counter()

    async def reconcile(ctx: Context[Gadget]) -> None:
        seen[ctx.key.name] += 1
        await asyncio.sleep(0.5)

    for i in range(20):
        await cluster.client.create(gadget(f"initial{i}"))
    for i in range(10):
        await cluster.client.create(gadget(f"urgent{i}"))
    builder = manager.controller(Gadget).options(max_concurrent_reconciles=1)
    controller = (builder if ageing else builder.options(age_rate=0.0)).build(reconcile)
    manager.add(controller)

    async def press() -> None:
        while True:
            for i in range(10):
                controller.queue.add(key(f"urgent{i}"))
            await asyncio.sleep(0.4)

    async with asyncio.TaskGroup() as group, cluster.serving(manager):
        pressing = group.create_task(press())
        await asyncio.sleep(180)
        pressing.cancel()
        starved = [i for i in range(20) if not seen[f"initial{i}"]]
    if ageing:
        assert not starved
    else:
        # The first key was taken before anything urgent had arrived.
        assert len(starved) >= 19
    assert all(seen[f"urgent{i}"] > 5 for i in range(10))
