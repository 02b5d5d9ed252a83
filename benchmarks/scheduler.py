"""Gang scheduling: the CPU of one cycle, how it grows, and a naive scheduler on the same cluster.

    python -m benchmarks scheduler [--nodes N] [--pods N]
        [--only cycle|growth|saturated|reclaim|large|look|loop|peer]

`cycle`: nodes with 8 GPUs each, pending pods in gangs of 8 to 64 in 100 queues of 10 departments; with and
without topology constraints, and again when everything that fits is running. `growth`: twice the nodes and
twice the pods, several times. `saturated`: no GPU is free, and gangs of other queues, then gangs of higher
priority, want some: cycles that reclaim and preempt. `reclaim`: the shape of KAI-Scheduler's own benchmark of
it. `loop`: how late others get their turn on the event loop while a cycle is planned. `peer`: the same small
clusters scheduled here and by the scheduler of `benchmarks/naive`, which copies its state at every checkpoint
and scores all nodes for every pod; the outcomes must be equal. `large`, only if it is asked for: 20,000 nodes
with 200,000 pods that run, and 10,000 that wait; with `look`, what the operator's look at as many objects
costs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from benchmarks import naive
from benchmarks.clusterlook import bench_look
from quarterdeck.api import Key
from quarterdeck.scheduler import Action, CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Bind, Evict, Pipeline, Unschedulable
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import (
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    PriorityClassInfo,
    QueueInfo,
    QueueResource,
    TopologyConstraint,
    TopologyInfo,
)

T = TypeVar("T")

GPUS = 8
"""Of each node."""
RACK, ZONE = 20, 200
"""Nodes in each."""
GANG = (8, 64)
PER_DEPARTMENT = 10
PER_NODE = 7
"""Pending pods per node where all of them are to fit."""
UNLIMITED = QueueResource(-1, -1, 1)
CONSTRAINT = TopologyConstraint(topology="cluster", required_level="zone", preferred_level="rack")
PRIORITIES = (50, 75)
PEER_NODES = 12


class Cluster:
    """A snapshot in the making."""

    def __init__(self, nodes: int, queues: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.nodes = [_node(index) for index in range(nodes)]
        self.leaves = [f"queue-{index:03}" for index in range(queues)]
        self.queues = _queues(nodes, self.leaves)
        self.groups: list[PodGroupInfo] = []
        self.pods: list[PodInfo] = []
        self._free = [GPUS] * nodes

    def wait(
        self, count: int, leaves: list[str], priorities: tuple[int, ...] = PRIORITIES, *, near: bool = False
    ) -> None:
        """Add so many pending pods in gangs; ``near`` constrains every other gang."""
        while count > 0:
            size = min(self.random.randint(*GANG), count)
            constraint = CONSTRAINT if near and len(self.groups) % 2 else TopologyConstraint()
            self.gang(size, leaves, priorities, size, constraint)
            count -= size

    def run(self, leaves: list[str]) -> None:
        """Fill all GPUs with gangs of these queues; a third of the gangs could do with half their pods."""
        at = 0
        while at < len(self.nodes):
            start = len(self.pods)
            size = self.random.randint(*GANG)
            least = size // 2 if len(self.groups) % 3 == 0 else size
            self.gang(size, leaves, (50,), least, TopologyConstraint())
            for index in range(start, len(self.pods)):
                while at < len(self.nodes) and not self._free[at]:
                    at += 1
                if at == len(self.nodes):
                    del self.pods[index:]
                    self.groups[-1] = replace(self.groups[-1], min_member=max(1, index - start))
                    break
                self._free[at] -= 1
                self.pods[index] = replace(self.pods[index], phase="Running", node=self.nodes[at].name)

    def occupy(self, count: int) -> None:
        """Add so many running pods without GPUs, in gangs, spread over the nodes."""
        while len(self.pods) < count:
            start = len(self.pods)
            size = self.random.randint(*GANG)
            self.gang(size, self.leaves, (50,), size, TopologyConstraint())
            for index in range(start, len(self.pods)):
                node = self.nodes[index % len(self.nodes)].name
                request = Resources(100, 1 << 20, 0)
                self.pods[index] = replace(self.pods[index], phase="Running", node=node, request=request)

    def gang(
        self, size: int, leaves: list[str], priorities: tuple[int, ...], least: int, near: TopologyConstraint
    ) -> None:
        """A gang of pending pods."""
        number = len(self.groups)
        name = f"gang-{number:05}"
        self.groups.append(
            PodGroupInfo(
                namespace="bench",
                name=name,
                created=number,
                queue=leaves[number % len(leaves)],
                min_member=least,
                priority_class_name=f"p{self.random.choice(priorities)}",
                topology_constraint=near,
            )
        )
        for index in range(size):
            pod = f"{name}-{index}"
            self.pods.append(
                PodInfo(
                    namespace="bench",
                    name=pod,
                    uid=pod,
                    pod_group=name,
                    request=Resources(8000, 32 << 30, 1),
                )
            )

    def snapshot(self) -> Snapshot:
        return Snapshot(
            now=1000.0,
            nodes=tuple(self.nodes),
            pods=tuple(self.pods),
            pod_groups=tuple(self.groups),
            queues=tuple(self.queues),
            priority_classes=tuple(PriorityClassInfo(name=f"p{each}", value=each) for each in (50, 75, 100)),
            topologies=(TopologyInfo(name="cluster", levels=("zone", "rack")),),
        )


def _node(index: int) -> NodeInfo:
    return NodeInfo(
        name=f"node-{index:05}",
        allocatable=Resources(128_000, 1 << 40, GPUS),
        labels={"zone": f"zone-{index // ZONE}", "rack": f"rack-{index // RACK}"},
    )


def _queues(nodes: int, leaves: list[str]) -> list[QueueInfo]:
    departments = max(len(leaves) // PER_DEPARTMENT, 1)
    gpus = nodes * GPUS
    made = [
        QueueInfo(
            name=f"department-{index:02}",
            created=index,
            cpu=UNLIMITED,
            memory=UNLIMITED,
            gpu=QueueResource(gpus / departments, -1, 1),
        )
        for index in range(departments)
    ]
    made += [
        QueueInfo(
            name=name,
            parent=f"department-{index % departments:02}",
            created=index,
            cpu=UNLIMITED,
            memory=UNLIMITED,
            gpu=QueueResource(gpus / len(leaves), -1, 1),
        )
        for index, name in enumerate(leaves)
    ]
    return made


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """CPU seconds of one call."""
    gc.collect()
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def count(result: CycleResult) -> Counter[type]:
    return Counter(type(decision) for decision in result.decisions)


def running(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster after a cycle: what was bound runs."""
    nodes = {each.pod: each.node for each in result.decisions if isinstance(each, Bind)}
    return replace(
        snapshot,
        pods=tuple(
            replace(pod, phase="Running", node=nodes[pod.key]) if pod.key in nodes else pod
            for pod in snapshot.pods
        ),
    )


def bench_cycle(nodes: int, pods: int) -> bool:
    """One cycle on an empty cluster, and the next when it is full."""
    print(f"one cycle, {nodes:,} nodes with {GPUS} GPUs, {pods:,} pending pods, 100 queues (CPU)")
    good = True
    for label, near in (("gangs anywhere", False), ("every other gang in one zone", True)):
        cluster = Cluster(nodes, 100)
        cluster.wait(pods, cluster.leaves, near=near)
        snapshot = cluster.snapshot()
        result, seconds = timed(lambda snapshot=snapshot: schedule(snapshot))  # type: ignore[misc]
        found = count(result)
        placed = found[Bind]
        print(
            f"  {label:30} {seconds:6.2f} s   {placed:,} pods bound, {seconds / pods * 1e6:5.1f} µs per pod, "
            f"{found[Unschedulable]} gangs wait"
        )
        full = running(snapshot, result)
        again, seconds = timed(lambda full=full: schedule(full))  # type: ignore[misc]
        changes = count(again)
        good = good and not changes[Bind]
        print(
            f"  {'  the cycle after':30} {seconds:6.2f} s   {changes[Bind]} bound, {changes[Evict]} evicted, "
            f"{changes[Pipeline]} promised"
        )
    return good


def bench_growth(sizes: list[int]) -> bool:
    """Nodes and pods doubled again and again: the cost of a pod should stay what it is."""
    print(f"\ngrowth: {PER_NODE} pending pods per node, a cycle that places them (CPU)")
    costs = {}
    for nodes in sizes:
        cluster = Cluster(nodes, 100)
        cluster.wait(nodes * PER_NODE, cluster.leaves)
        snapshot = cluster.snapshot()
        _, seconds = timed(lambda snapshot=snapshot: schedule(snapshot))  # type: ignore[misc]
        costs[nodes] = seconds / (nodes * PER_NODE) * 1e6
    longest = max(costs.values())
    for nodes, cost in costs.items():
        print(
            f"  {nodes:>6,} nodes {nodes * PER_NODE:>7,} pods  {cost:6.1f} µs per pod  "
            f"{'█' * round(cost / longest * 40)}"
        )
    ratio = costs[sizes[-1]] / costs[sizes[0]]
    verdict = "ok" if ratio <= 2 else "GROWS"
    factor = sizes[-1] // sizes[0]
    print(f"  a pod costs {ratio:.2f}× as much with {factor}× the nodes and pods (≤ 2)   {verdict}")
    return ratio <= 2


def bench_saturated(nodes: int) -> bool:
    """No GPU is free; queues that have nothing want some, then jobs of higher priority."""
    print(f"\nsaturated: {nodes * GPUS:,} GPUs of {nodes:,} nodes in use by half the queues (CPU)")
    for label, action in (("reclaim", Action.RECLAIM), ("preempt", Action.PREEMPT)):
        cluster = Cluster(nodes, 100)
        half = len(cluster.leaves) // 2
        cluster.run(cluster.leaves[:half])
        wanted = nodes * GPUS // 20
        if action is Action.RECLAIM:
            cluster.wait(wanted, cluster.leaves[half:])
        else:
            cluster.wait(wanted, cluster.leaves[:half], (75,))
        snapshot = cluster.snapshot()
        result, seconds = timed(lambda snapshot=snapshot: schedule(snapshot))  # type: ignore[misc]
        found = count(result)
        alone, _ = timed(
            lambda snapshot=snapshot, action=action: schedule(snapshot, Settings(actions=(action,)))  # type: ignore[misc]
        )
        print(
            f"  {wanted:,} pods wait, {label:8} {seconds:6.2f} s   {found[Evict]} evicted, "
            f"{found[Pipeline]} promised, {found[Unschedulable]} gangs wait; "
            f"{count(alone)[Evict]} evicted by {label} alone"
        )
    return True


def bench_reclaim(sizes: list[int]) -> bool:
    """KAI-Scheduler's own benchmark: every GPU runs a job of one pod, and a gang wants whole nodes."""
    print("\nreclaim: a job on every GPU, and a gang that is entitled to every tenth node (CPU)")
    good = True
    costs: dict[int, float] = {}
    for nodes in sizes:
        snapshot = _full_cluster(nodes)
        result, seconds = timed(partial(schedule, snapshot, Settings(actions=(Action.RECLAIM,))))
        found = count(result)
        costs[nodes] = seconds
        good = good and found[Pipeline] == nodes // 10 and found[Evict] == nodes // 10 * GPUS
        print(f"  {nodes:>6,} nodes {seconds:6.2f} s   {found[Evict]} evicted, {found[Pipeline]} promised")
    growth = costs[sizes[-1]] / costs[sizes[0]]
    print(f"  {sizes[-1] / sizes[0]:.0f}× the nodes, jobs and victims take {growth:.1f}× as long")
    return good


def _full_cluster(nodes: int) -> Snapshot:
    cluster = Cluster(nodes, 2)
    busy, entitled = cluster.leaves
    for index in range(nodes * GPUS):
        cluster.gang(1, [busy], (50,), 1, TopologyConstraint())
        node = cluster.nodes[index % nodes].name
        cluster.pods[-1] = replace(cluster.pods[-1], phase="Running", node=node)
    cluster.gang(nodes // 10, [entitled], (50,), nodes // 10, TopologyConstraint())
    whole = Resources(8000, 32 << 30, GPUS)
    cluster.pods = [pod if pod.node else replace(pod, request=whole) for pod in cluster.pods]
    shares = {busy: QueueResource(0, -1, 0), entitled: QueueResource(nodes * GPUS, -1, 0)}
    cluster.queues = [replace(each, gpu=shares.get(each.name, UNLIMITED)) for each in cluster.queues]
    return cluster.snapshot()


def bench_large(nodes: int, running_pods: int, pods: int) -> bool:
    """A big cluster that is in use: a cycle that places pods, and the one after."""
    print(f"\nlarge: {nodes:,} nodes, {running_pods:,} running pods, {pods:,} pending (CPU)")
    cluster = Cluster(nodes, 100)
    cluster.occupy(running_pods)
    cluster.wait(pods, cluster.leaves)
    snapshot = cluster.snapshot()
    result, seconds = timed(lambda: schedule(snapshot))
    print(f"  a cycle          {seconds:6.2f} s   {count(result)[Bind]:,} bound")
    full = running(snapshot, result)
    again, seconds = timed(lambda: schedule(full))
    print(f"  the cycle after  {seconds:6.2f} s   {count(again)[Bind]} bound")
    return count(result)[Bind] == pods and not count(again)[Bind]


def bench_loop(nodes: int) -> bool:
    """A task that wants its turn every millisecond while a cycle is planned, in a thread and on the loop."""
    print(f"\nevent loop: lateness of a turn while a reclaim at {nodes:,} nodes is planned")
    snapshot = _full_cluster(nodes)
    worst = {}
    for label, is_apart in (("in a thread", True), ("on the loop", False)):
        late = sorted(asyncio.run(_lateness(snapshot, is_apart=is_apart)))
        worst[label] = late[-1]
        middle, high = late[len(late) // 2], late[len(late) * 99 // 100]
        print(
            f"  {label:12} {len(late):>5,} turns   median {middle * 1e3:6.1f} ms   "
            f"p99 {high * 1e3:6.1f} ms   longest {late[-1] * 1e3:8.1f} ms"
        )
    return worst["in a thread"] < worst["on the loop"]


async def _lateness(snapshot: Snapshot, *, is_apart: bool) -> list[float]:
    """How late each turn came, in seconds."""
    late = []

    async def plan() -> None:
        if is_apart:
            await asyncio.to_thread(schedule, snapshot)
        else:
            schedule(snapshot)

    planning = asyncio.create_task(plan())
    while not planning.done():
        due = time.monotonic() + 0.001
        await asyncio.sleep(0.001)
        late.append(max(0.0, time.monotonic() - due))
    await planning
    return late


def bench_peer(rounds: int) -> bool:
    """The naive scheduler on clusters that it can bear, and whether both decide the same."""
    print(
        "\npeer: a scheduler that copies its state and scores all nodes for every pod (CPU, same snapshots)"
    )
    mine = theirs = 0.0
    equal = True
    for seed in range(rounds):
        cluster = Cluster(PEER_NODES, 8, seed)
        if seed % 2:
            cluster.run(cluster.leaves[:4])
            cluster.wait(PEER_NODES * 2, cluster.leaves)
        else:
            cluster.wait(PEER_NODES * GPUS, cluster.leaves, near=True)
        snapshot = cluster.snapshot()
        result, seconds = timed(lambda snapshot=snapshot: schedule(snapshot))  # type: ignore[misc]
        mine += seconds
        other, seconds = timed(lambda snapshot=snapshot: naive.schedule(snapshot, Settings()))  # type: ignore[misc]
        theirs += seconds
        outcome = {key: (each.state.value, each.node) for key, each in result.pods.items()}
        expected: dict[Key, tuple[str, str]] = {key: (pod.state, pod.node) for key, pod in other.items()}
        equal = equal and outcome == expected
    print(
        f"  {rounds} clusters of {PEER_NODES} nodes: {mine / rounds * 1e3:.1f} ms here, "
        f"{theirs / rounds * 1e3:.0f} ms there, ratio {theirs / mine:.0f}   "
        f"outcomes {'equal' if equal else 'DIFFER'}"
    )
    return equal


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks scheduler", description=__doc__)
    parser.add_argument(
        "--only", choices=("cycle", "growth", "saturated", "reclaim", "large", "look", "loop", "peer")
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=6, help="clusters for the peer")
    options = parser.parse_args(arguments)
    good = True
    if options.only in (None, "cycle"):
        good = bench_cycle(options.nodes, options.pods) and good
    if options.only in (None, "growth"):
        sizes = [options.nodes // 8, options.nodes // 4, options.nodes // 2, options.nodes, options.nodes * 2]
        good = bench_growth(sizes) and good
    if options.only in (None, "saturated"):
        good = bench_saturated(options.nodes) and good
    if options.only in (None, "reclaim"):
        good = bench_reclaim([options.nodes // 10, options.nodes // 5, options.nodes // 2]) and good
    if options.only == "large":
        good = bench_large(20_000, 200_000, 10_000) and good
    if options.only in ("large", "look"):
        good = bench_look(20_000, 200_000) and good
    if options.only in (None, "loop"):
        good = bench_loop(options.nodes // 5) and good
    if options.only in (None, "peer"):
        good = bench_peer(options.rounds) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
