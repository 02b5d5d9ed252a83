"""Pods that ask for more of something than any node has."""

from __future__ import annotations

from quarterdeck.scheduler.fiterror import CORES, GIGABYTES, amount_text, amounts_text
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.resource import Resources


def too_large(cluster: Cluster, task: Task) -> tuple[str, ...]:
    """What is said about a pod that no node could take even if it were empty; nothing otherwise."""
    shape = task.shape
    gpu = shape.gpu + (shape.share.devices * shape.share.portion if shape.share is not None else 0)
    exceeded = _exceeded(shape, gpu, cluster.largest)
    if exceeded is None:
        return ()
    name, most = exceeded
    request = amounts_text((shape.cpu, shape.memory, gpu))
    request += "".join(f", {other}: {need}" for other, need in shape.scalars)
    pool = f"node in the {cluster.settings.node_pool} node-pool"
    if most:
        found = f"Max {name} resources available in a single {pool} is topped at {most}"
    else:
        found = f"No {pool} has {name} resources"
    return (f"MaxNodePoolResources: The pod {task.key} requires {request}. {found}",)


def _exceeded(shape: Shape, gpu: float, largest: Resources) -> tuple[str, str] | None:
    """The first resource that no node has enough of, and how much the best one has."""
    if gpu > largest.gpu:
        return "GPU", amount_text(largest.gpu) if largest.gpu else ""
    if shape.cpu > largest.cpu:
        return "CPU", f"{amount_text(largest.cpu, CORES)} cores" if largest.cpu else ""
    if shape.memory > largest.memory:
        return "memory", f"{amount_text(largest.memory, GIGABYTES)} GB" if largest.memory else ""
    has = dict(largest.scalars)
    return next(((name, "") for name, need in shape.scalars if need > has.get(name, 0)), None)
