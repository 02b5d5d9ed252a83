"""Model checks: whatever the order of events and reconciles, the end is the same.

``ends_alike`` runs a scenario once per seed, each time on a fresh cluster whose links delay every request and
every event by a random moment, so that they meet in another order each time. What the scenario returns is its
end; all ends must be equal::

    async def scenario(cluster: TestCluster, chance: random.Random) -> object:
        ...
        return sorted(...)

    def test_order_does_not_matter() -> None:
        ends_alike(scenario, seeds=range(20), crds=[Widget])
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from quarterdeck.testing.clock import run
from quarterdeck.testing.cluster import Definition, TestCluster
from quarterdeck.testing.fault import DelayEvents, FaultPlan, Latency

T = TypeVar("T")
Scenario = Callable[[TestCluster, random.Random], Awaitable[T]]


def shuffled(seed: int, *, upto: float = 0.02) -> FaultPlan:
    """A plan without faults that only changes the order in which things meet."""
    return FaultPlan(seed, Latency((0.0, upto)), DelayEvents((0.0, upto)))


def ends_alike(scenario: Scenario[T], *, seeds: Iterable[int], crds: Sequence[Definition] = ()) -> T:
    """Run a scenario on virtual time for every seed; raises ``AssertionError`` if two ends differ.

    Returns the end. ``cluster.manager(plan=shuffled(seed))`` is for the scenario to call: the random
    numbers it is given are seeded too.
    """
    ends = [(seed, run(_once(scenario, seed, crds))) for seed in seeds]
    if not ends:
        raise ValueError("no seeds, nothing checked")
    first_seed, first = ends[0]
    for seed, end in ends[1:]:
        assert end == first, f"seed {seed} ends in {end!r}, seed {first_seed} in {first!r}"
    return first


async def _once(scenario: Scenario[T], seed: int, crds: Sequence[Definition]) -> T:
    async with TestCluster(crds=crds, seed=seed) as cluster:
        return await scenario(cluster, random.Random(seed))  # noqa: S311  order, no secret
