"""Grove: planning the children of a PodCliqueSet, and pods per second until a set runs.

    python -m benchmarks grove [--only plan|settle|flow|replicas|operator] [--pods N...] [--replicas N]
        [--peer "COMMAND"]

`plan`: CPU from a set to all its PodCliques, groups, gangs and Services, at growing numbers of replicas.
`settle`: a set is created on the cluster of `quarterdeck up`, with nodes, scheduler and kubelet in the same
process, and is waited for until all its pods run: one gang each of a router and of groups of eight pods.
Most of the time is the cluster's own; beside it, in the same run, as many bare pods that a client creates.
`flow`: the same, one gang of each four pods, in the order before there were scheduler backends (pods first,
then their gang) and in that since then (the gang first, then its pods), by turns.
`replicas`: many gangs of two or four pods on `quarterdeck up`: pods a second until all gates are lifted,
until all are ready, the CPU of all its processes, and how long a small request takes meanwhile.
`operator`: the CPU that the operator takes for a pod of such a set, in a process of its own, and that of the
server and of the cluster's controllers beside it. `--peer` is a command that runs the operator of Grove in
Go, which you have built yourself, on the cluster of $KUBECONFIG: it does the same work in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import uvloop

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Pod
from quarterdeck.apiserver import ServerOptions
from quarterdeck.cli.cluster import cluster_in_one_process
from quarterdeck.client import Bookmark, Client, InProcessTransport
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.logic.childplan import plan_services
from quarterdeck.operators.grove.logic.cliqueplan import (
    plan_group_cliques,
    plan_scaling_groups,
    plan_standalone_cliques,
)
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.logic.gangplan import plan_gangs
from quarterdeck.operators.grove.logic.templatehash import clique_hashes
from quarterdeck.operators.grove.types import PodCliqueSet

from .groveflow import pods_first
from .groveoperator import bench_operator
from .grovereplicas import bench_replicas
from .groveset import PER_GROUP, clique, many_gangs, pod_clique_set

REPLICAS = (1, 10, 100, 1000)
ROUNDS = 5
PODS = (100, 400)
PER_NODE = 110
PER_GANG = 4
MOST_OF_FLOW = 1.3
"""What a pod may cost whose gang comes first, of what it costs otherwise."""
MANY = (1000, 5000)
PATIENCE_OF_ALL = 1200
"""Seconds until all pods run."""


def plan_all(pcs: PodCliqueSet) -> int:
    """Plan every child; gives their number."""
    hashes = clique_hashes(pcs)
    groups = plan_scaling_groups(pcs)
    cliques = [*plan_standalone_cliques(pcs, hashes)]
    for group in groups:
        cliques += plan_group_cliques(pcs, group, hashes)
    return len(groups) + len(cliques) + len(plan_gangs(pcs, {}, None)) + len(plan_services(pcs))


def bench_plan() -> bool:
    """Median CPU of a plan, and how it grows."""
    print("planning all children of a PodCliqueSet with 8 groups in each replica (median CPU)")
    times: dict[int, float] = {}
    for replicas in REPLICAS:
        pcs = with_defaults(PodCliqueSet.from_dict(pod_clique_set(replicas, 8)))
        looks, children = [], 0
        for _ in range(ROUNDS):
            started = time.process_time()
            children = plan_all(pcs)
            looks.append(time.process_time() - started)
        times[replicas] = statistics.median(looks) / children * 1e6
        total = statistics.median(looks) * 1e3
        size = f"{replicas:>5,} replicas  {children:>6,} children"
        print(f"  {size}  {total:9.2f} ms  {times[replicas]:6.1f} µs each")
    few, many = REPLICAS[1], REPLICAS[-1]
    growth = times[many] / times[few]
    verdict = "ok" if growth <= 1.3 else "MORE THAN LINEAR"
    print(f"  one of {many:,} replicas costs {growth:.2f}× what one of {few} does (≤ 1.3)   {verdict}")
    return growth <= 1.3


async def bench_settle(sizes: list[int]) -> bool:
    """Seconds and CPU until a set runs, beside as many pods that nobody manages."""
    print("\nuntil all pods run, on the cluster of `quarterdeck up`, in one process")
    costs: dict[int, float] = {}
    for size in sizes:
        groups = max(1, (size - 1) // PER_GROUP)
        count = 1 + groups * PER_GROUP
        alone = await _run(count, lambda client, count=count: _bare_pods(client, count))
        whole = await _run(count, lambda client, groups=groups: _set(client, groups))
        costs[size] = whole[1] / count
        print(
            f"  {count:>5,} bare pods  {alone[0]:6.2f} s  {alone[1] / count * 1e3:5.2f} ms CPU each"
            f"     in a set  {whole[0]:6.2f} s  {whole[1] / count * 1e3:5.2f} ms CPU each"
            f"     {whole[1] / alone[1]:.1f}×"
        )
    if len(sizes) == 1:
        return True
    growth = costs[sizes[-1]] / costs[sizes[0]]
    verdict = "ok" if growth <= 1.5 else "MORE THAN LINEAR"
    print(f"  a pod of {sizes[-1]:,} costs {growth:.2f}× what one of {sizes[0]:,} does (≤ 1.5)   {verdict}")
    return growth <= 1.5


async def _progress(client: Client) -> AsyncGenerator[set[str]]:
    """Names of the pods that run, after each change of one."""
    running: set[str] = set()
    async with client.watch(Pod.type_info.gvk, namespace="default") as events:
        async for event in events:
            if isinstance(event, Bookmark):
                continue
            pod = event.object
            if pod["status"].get("phase") == "Running":
                running.add(pod["metadata"]["name"])
            yield running


async def _run(count: int, begin: Any) -> tuple[float, float]:
    """Time and CPU from ``begin`` until so many pods run."""
    nodes = NodeSettings(count=count // PER_NODE + 1, capacity={"cpu": "32", "pods": str(PER_NODE)})
    async with cluster_in_one_process(
        ServerOptions(), [GroveOperator()], {}, asyncio.Event(), nodes=nodes
    ) as server:
        client = Client.over(InProcessTransport(server.local()))
        started, cpu = time.perf_counter(), time.process_time()
        beginning = asyncio.create_task(begin(client))
        async with asyncio.timeout(PATIENCE_OF_ALL), aclosing(_progress(client)) as progress:
            async for running in progress:
                if len(running) == count:
                    break
        await beginning
        spent = time.perf_counter() - started, time.process_time() - cpu
        await client.aclose()
    return spent


async def _bare_pods(client: Client, count: int) -> None:
    spec = clique("bare", 1)["spec"]["podSpec"]
    for index in range(count):
        metadata = {"name": f"bare-{index}", "namespace": "default"}
        await client.create(
            DynamicObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        )


async def _set(client: Client, groups: int) -> None:
    await client.create(DynamicObject(pod_clique_set(1, groups)))


async def bench_flow(sizes: list[int]) -> bool:
    """Seconds and CPU until gangs run, made after their pods and before them."""
    print("\nuntil all pods run, in gangs of 4: pods first, then the gang; and the gang first, then its pods")
    logging.getLogger("quarterdeck.client").setLevel(logging.ERROR)  # every set is warned about restartPolicy
    is_good = True
    for size in sizes:
        gangs = size // PER_GANG
        count, make = gangs * PER_GANG, functools.partial(_gangs, gangs=gangs)
        after, before = [], []
        for _ in range(ROUNDS):
            with pods_first():
                after.append(await _run(count, make))
            before.append(await _run(count, make))
        old, new = (
            (statistics.median(each[0] for each in runs), statistics.median(each[1] for each in runs))
            for runs in (after, before)
        )
        ratio = new[1] / old[1]
        is_good = is_good and ratio <= MOST_OF_FLOW
        print(
            f"  {count:>5,} pods  pods first  {old[0]:6.2f} s  {old[1] / count * 1e3:5.2f} ms CPU each"
            f"     gang first  {new[0]:6.2f} s  {new[1] / count * 1e3:5.2f} ms CPU each"
            f"     {ratio:.2f}× (≤ {MOST_OF_FLOW})   {'ok' if ratio <= MOST_OF_FLOW else 'SLOWER'}"
        )
    return is_good


async def _gangs(client: Client, gangs: int) -> None:
    await client.create(DynamicObject(many_gangs(gangs, PER_GANG)))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks grove", description=__doc__)
    parser.add_argument("--only", choices=("plan", "settle", "flow", "replicas", "operator"))
    parser.add_argument("--pods", type=int, nargs="+", help=f"default: {PODS}, of many replicas {MANY}")
    parser.add_argument("--replicas", type=int, help="gangs of `replicas`; default: of 2 pods, or of 4")
    parser.add_argument("--peer", default="", metavar="COMMAND")
    options, _ = parser.parse_known_args(arguments)
    good = True
    if options.only in (None, "plan"):
        good = bench_plan()
    if options.only in (None, "settle"):
        good = uvloop.run(bench_settle(options.pods or list(PODS))) and good
    if options.only in (None, "flow"):
        good = uvloop.run(bench_flow(options.pods or list(PODS))) and good
    if options.only in (None, "replicas"):
        good = bench_replicas(options.pods or list(MANY), options.replicas) and good
    if options.only in (None, "operator"):
        good = bench_operator(options.pods or [MANY[0]], many_gangs, options.peer) and good
    return 0 if good else 1
