"""A bad minute: watches cut every second, versions expired, requests throttled, refused and lost, by a seed.

No event is lost, no key is handled twice at once, and there is no storm of reconciles, lists or requests.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from quarterdeck.api import UNSET, Condition, Key, Maybe, Model, ObjectMeta, Resource, Seq, omitempty
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.errors import Conflict
from quarterdeck.runtime import Context, Result, owned_by
from quarterdeck.runtime.cache import owner_uid
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import (
    READS,
    WRITES,
    CutWatch,
    DelayEvents,
    FaultPlan,
    Latency,
    LoseAnswer,
    Refuse,
    RefuseConnection,
    RepeatEvents,
    TestCluster,
    WatchError,
    eventually,
    run_until_idle,
)

MINUTE = 60.0
OBJECTS = 12


class FlagSpec(Model):
    stripes: int = 1


class FlagStatus(Model):
    ready: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Flag(Resource, group="storm.example.com", version="v1", status=True):
    """Has one config map per stripe."""

    spec: FlagSpec = omitempty(FlagSpec())
    status: FlagStatus = omitempty(FlagStatus())


def cut_every_second(seed: int) -> FaultPlan:
    """What the watches of a minute meet when connections do not last, and a few refusals."""
    return FaultPlan(
        seed,
        Refuse(410, rate=0.01, verbs=frozenset({"watch"}), until=MINUTE),
        Refuse(429, retry_after=1, rate=0.05, verbs=WRITES, until=MINUTE),
        Refuse(409, message="the object has been modified", rate=0.15, verbs=WRITES, until=MINUTE),
        CutWatch((1.0, 1.0), until=MINUTE),
    )


def bad_minute(seed: int) -> FaultPlan:
    """Sixty seconds of trouble, then none: whatever was lost must be found again without it."""
    return FaultPlan(
        seed,
        Latency((0.0, 0.02), rate=0.3, until=MINUTE),
        Refuse(429, retry_after=1, rate=0.05, until=MINUTE),
        Refuse(409, message="the object has been modified", rate=0.15, verbs=WRITES, until=MINUTE),
        Refuse(410, rate=0.1, verbs=frozenset({"watch"}), until=MINUTE),
        Refuse(500, rate=0.02, until=MINUTE),
        RefuseConnection(rate=0.03, verbs=READS, until=MINUTE),
        LoseAnswer(rate=0.05, verbs=WRITES, until=MINUTE),
        CutWatch((1.0, 1.0), until=MINUTE),
        WatchError(410, (0.2, 0.9), rate=0.15, until=MINUTE),
        WatchError(429, (0.2, 0.9), rate=0.05, until=MINUTE),
        WatchError(500, (0.2, 0.9), rate=0.05, until=MINUTE),
        RepeatEvents(rate=0.1, until=MINUTE),
        DelayEvents((0.0, 0.05), rate=0.2, until=MINUTE),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("make_plan", "ended_watches", "faults"),
    [
        (cut_every_second, 60, ("409", "429")),
        (bad_minute, 10, ("409", "429", "LoseAnswer", "watch 410")),
    ],
    ids=["cut every second", "everything"],
)
@pytest.mark.cluster(crds=[Flag], controllers=True)
async def test_bad_minute_loses_no_event_handles_no_key_twice_at_once_and_starts_no_storm(
    cluster: TestCluster,
    clock: LoopClock,
    make_plan: Callable[[int], FaultPlan],
    ended_watches: int,
    faults: tuple[str, ...],
    seed: int,
) -> None:
    chance = random.Random(seed)
    running: set[Key] = set()
    runs: Counter[str] = Counter()
    seen: dict[str, int] = {}
    gone: set[str] = set()

    async def sew(ctx: Context[Flag]) -> Result | None:
        assert ctx.key not in running, f"{ctx.key} runs twice"
        running.add(ctx.key)
        runs[ctx.key.name] += 1
        try:
            wanted = {f"{ctx.key.name}-{i}" for i in range(ctx.obj.spec.stripes)}
            for name in sorted(wanted):
                child = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
                await ctx.apply(child, owner=ctx.obj)
            await ctx.prune(ConfigMap, keep=wanted)
            ctx.status.ready = ctx.index(ConfigMap, owned_by(ctx.obj)).count(lambda child: True)
            seen[ctx.key.name] = ctx.obj.metadata.generation
            return None
        finally:
            running.remove(ctx.key)

    plan = make_plan(seed)
    manager = cluster.manager(plan=plan)
    link = cluster.links[-1]
    manager.add(
        manager.controller(Flag)
        .owns(ConfigMap)
        .indexes(ConfigMap, owner_uid)
        .options(max_concurrent_reconciles=8)
        .build(sew)
    )
    changes = 0
    async with cluster.serving(manager):
        started = clock.monotonic()
        while clock.monotonic() - started < MINUTE:
            name = f"f{chance.randrange(OBJECTS)}"
            changes += 1
            await _change(cluster, chance, name, gone)
            await asyncio.sleep(chance.random() * 0.5)
        await run_until_idle(manager, horizon=60.0, timeout=900.0)

        flags = {each.metadata.name: each for each in await cluster.client.list(Flag)}
        assert flags.keys() == {f"f{i}" for i in range(OBJECTS)} - gone
        for name, flag in flags.items():
            assert flag.status.ready == flag.spec.stripes, name
            assert seen[name] == flag.metadata.generation, "the last change was reconciled"
        expected = {f"{name}-{i}" for name, flag in flags.items() for i in range(flag.spec.stripes)}

        async def children() -> set[str]:
            found = await cluster.client.list(ConfigMap, namespace="default")
            return {each.metadata.name for each in found if each.metadata.owner_references}

        await eventually(lambda: _equal(children(), expected))

    struck = plan.struck
    ended = ("CutWatch", "watch 410", "watch 429", "watch 500")
    assert sum(struck[fault] for fault in ended) >= ended_watches, struck
    assert min(struck[fault] for fault in faults) > 0, struck
    assert sum(runs.values()) < 6 * changes, f"{sum(runs.values())} reconciles for {changes} changes"
    assert link.count("watch") < 250, "two kinds, a minute, a second each, and some refusals"
    assert len(link.log) < 10 * changes


async def _equal(found: Awaitable[set[str]], wanted: set[str]) -> bool:
    """Nothing lost, nothing double; what deleted objects left behind is collected."""
    return await found == wanted


async def _change(cluster: TestCluster, chance: random.Random, name: str, gone: set[str]) -> None:
    """Create, change or delete an object; the children of a deleted one are the garbage collector's."""
    client = cluster.client
    stripes = chance.randrange(4)
    if name in gone or not [each for each in await client.list(Flag) if each.metadata.name == name]:
        made = Flag(metadata=ObjectMeta(name=name, namespace="default"), spec=FlagSpec(stripes=stripes))
        await client.create(made)
        gone.discard(name)
    elif chance.random() < 0.1:
        await client.delete(Flag, name, "default")
        gone.add(name)
    else:
        found = await client.get(Flag, name, "default")
        with suppress(Conflict):
            await client.update(found.evolve(spec=FlagSpec(stripes=stripes)))
