"""The decisions of the default scheduler: pods per second of CPU, without a server.

    python -m benchmarks placement [--quick] [--nodes N] [--pods N]

*alike* are pods of one shape; *spread* are held to an even share of three zones; *refused* find every node
full and nobody to make room; *preempting* find less important pods that do. What comes with it on a cluster
(reading pods, bindings, events) is not in it.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from quarterdeck.cluster.placement.preemption import Occupant, Plan, Preemption
from quarterdeck.cluster.placement.spread import spread_constraints
from quarterdeck.cluster.placement.state import Demand, PlacementState
from quarterdeck.scheduler.intake import node_info, pod_info

Json = dict[str, Any]
ZONES = 3
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
}


def node(number: int, cpu: str) -> Any:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return node_info(
        {
            "metadata": {"name": f"node-{number}", "labels": {"zone": f"zone-{number % ZONES}"}},
            "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def demand(name: str, cpu: str, priority: int = 0, **spec: Any) -> Demand:
    document: Json = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return Demand(pod_info(document), priority, spread_constraints(document))


def placed(nodes: int, pods: int, **spec: Any) -> float:
    """Seconds of CPU until all pods have a node."""
    machines = [node(number, "64") for number in range(nodes)]
    demands = [demand(f"pod-{number}", "100m", **spec) for number in range(pods)]
    start = time.process_time()
    state = PlacementState(machines, [each.info for each in demands], {})
    missed = sum(1 for each in demands if not state.place(each))
    spent = time.process_time() - start
    if missed:
        raise RuntimeError(f"{missed} pods found no node")
    return spent


def turned_down(nodes: int, pods: int, priority: int) -> tuple[float, int]:
    """Seconds of CPU for pods that find every node taken, and how many of them made others go."""
    machines = [node(number, "1") for number in range(nodes)]
    holders = [
        Occupant(demand(f"holder-{number}", "1", nodeName=f"node-{number}").info, 0)
        for number in range(nodes)
    ]
    demands = [demand(f"pod-{number}", "1", priority) for number in range(pods)]
    start = time.process_time()
    state = PlacementState(machines, [*(each.info for each in holders), *(each.info for each in demands)], {})
    preemption = Preemption(state, holders, [])
    plans = 0
    for each in demands:
        if state.place(each):
            raise RuntimeError("a pod found a node that was full")
        found = preemption.plan(each)
        if isinstance(found, Plan):
            plans += 1
            state.reserve(each.info, found.node)
        else:
            state.refusal(each)
    return time.process_time() - start, plans


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks placement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--nodes", type=int, default=0, help="1,000 unless set")
    parser.add_argument("--pods", type=int, default=0, help="10,000 unless set")
    options = parser.parse_args(argv)
    nodes = options.nodes or (100 if options.quick else 1000)
    pods = options.pods or (1000 if options.quick else 10_000)
    few = max(1, pods // 50)
    print(f"default scheduler, {pods:,} pods on {nodes:,} nodes, pods per second of CPU:")
    print(f"  alike       {pods / placed(nodes, pods):10,.0f}")
    print(f"  spread      {pods / placed(nodes, pods, **SPREAD):10,.0f}")
    spent, _ = turned_down(nodes, pods, 0)
    print(f"  refused     {pods / spent:10,.0f}")
    spent, plans = turned_down(nodes, few, 1)
    print(f"  preempting  {few / spent:10,.0f}   ({plans} of {few})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
