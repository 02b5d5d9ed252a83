"""What would start a gang that waits: nodes, a larger share of its queue, or somebody else's end.

Each is tried: the cluster is changed, one cycle is decided, and the gang is looked at. So whatever is told
here would work, as far as the snapshot tells the whole truth. It is also no more than is needed: fields of
queues that need not change stay, and the others are raised by as little as starts the gang. Where nothing can
help, ``verdict`` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import Evict, PodState
from quarterdeck.scheduler.fiterror import CORES, GIGABYTES, amount_text
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import QueueState
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.snapshot import NodeInfo, Snapshot

from .change import Change, add_nodes, change_queue
from .record import Recorded
from .table import counted

_MOST_NODES = 64
_MODELS = 3
"""Kinds of nodes that are tried, the largest first."""
_ENDS = 6
"""Gangs whose end is tried, the largest first."""
_HOST = "kubernetes.io/hostname"
_NAMES = ("cpu", "memory", "gpu")
_UNITS = (1.0, 1e6, 1.0)
_STEPS = {"cpu": 1000.0, "memory": 1000.0, "gpu": 1.0}
"""How near to the least amount a search comes: a core, a gigabyte, a GPU."""
_STARTED = frozenset({*ACTIVE, PodState.ALLOCATED, PodState.PIPELINED})


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One change that starts the gang."""

    kind: str
    """``nodes``, ``queue`` or ``end``."""
    text: str
    evicts: tuple[str, ...] = ()
    """Gangs that would lose pods."""


def remedies(recorded: Recorded, key: Key) -> tuple[Remedy, ...]:
    """What would start the gang; nothing if it starts anyway, is unknown, or nothing that is tried helps."""
    cluster = Cluster(recorded.snapshot, recorded.settings)
    job = cluster.jobs.get(key)
    if job is None or not job.tasks_to_allocate():
        return ()

    def start(change: Change) -> tuple[str, ...] | None:
        """Whom it evicts if the gang starts; ``None`` if it does not."""
        result = schedule(change(recorded.snapshot), recorded.settings)
        states = [result.pods[task.key].state for task in job.tasks_to_allocate()]
        if not all(state in _STARTED for state in states):
            return None
        evicted = {str(each.pod_group) for each in result.decisions if isinstance(each, Evict)}
        return tuple(sorted(evicted - {str(key)}))

    if start(lambda snapshot: snapshot) is not None:
        return ()
    found = (*_ends(cluster, job, start), *_shares(job, start), *_nodes(recorded.snapshot, start))
    return tuple(sorted(found, key=lambda each: len(each.evicts) + (each.kind == "end")))


def verdict(recorded: Recorded, key: Key) -> str:
    """Why nothing that could be done to queues and running gangs starts it; empty if something might."""
    cluster = Cluster(recorded.snapshot, recorded.settings)
    job = cluster.jobs.get(key)
    if job is None or not job.tasks_to_allocate():
        return ""
    if job.queue is None:
        return f"nothing starts this, because queue {job.info.queue} does not exist"
    nodes = [node.allocatable for node in recorded.snapshot.nodes]
    if not nodes:
        return "nothing starts this, because there are no nodes"
    for task in job.tasks_to_allocate():
        shape = task.shape
        for wanted, most, unit, noun in (
            (shape.gpu, max(node.gpu for node in nodes), 1.0, "GPU"),
            (shape.cpu, max(node.cpu for node in nodes), CORES, "core"),
            (shape.memory, max(node.memory for node in nodes), GIGABYTES, "gigabyte"),
        ):
            if wanted > most:
                has = f"the largest has {amount_text(most, unit)}" if most else "none has any"
                return f"nothing starts this, because no node has {counted(wanted / unit, noun)}: {has}"
    return ""


Start = Callable[[Change], tuple[str, ...] | None]


def _ends(cluster: Cluster, job: Job, start: Start) -> Iterator[Remedy]:
    """The end of a gang that runs."""
    running = []
    for other in cluster.jobs.values():
        pods = [task for task in other.tasks if task.state in ACTIVE]
        if pods and other is not job:
            running.append((sum(task.charge[2] for task in pods), len(pods), str(other.key), other.key))
    for gpus, count, name, key in sorted(running, reverse=True)[:_ENDS]:
        evicts = start(_without(key))
        if evicts is not None:
            text = f"the end of {name}, which has {counted(count, 'pod')} and {counted(gpus, 'GPU')}"
            yield Remedy(kind="end", text=text, evicts=evicts)


def _without(gang: Key) -> Change:
    def change(snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot,
            pods=tuple(
                pod for pod in snapshot.pods if (pod.namespace, pod.pod_group) != (gang.namespace, gang.name)
            ),
            pod_groups=tuple(
                each
                for each in snapshot.pod_groups
                if (each.namespace, each.name) != (gang.namespace, gang.name)
            ),
        )

    return change


def _shares(job: Job, start: Start) -> Iterator[Remedy]:
    """A larger quota, or a limit that allows for it, of the queues from the gang's to the root."""
    wanted = job.wanted()
    chain = list(job.queue.chain) if job.queue is not None else []
    for field in ("limit", "quota"):
        changed: Shares = {}
        for queue in chain:
            bounds = queue.limit if field == "limit" else queue.quota
            for index, need in _raised(queue, bounds, (wanted[0], wanted[1], wanted[2])):
                changed[queue.name, f"{_NAMES[index]}.{field}"] = (bounds[index] / _UNITS[index], need)
        if not changed or _start_with(changed, start) is None:
            continue
        least = _least(changed, start)
        evicts = _start_with(least, start)
        if evicts is not None:
            told = [f"queue {name}: {each} {value:g}" for (name, each), (_, value) in least.items()]
            yield Remedy(kind="queue", text=", ".join(told), evicts=evicts)


Shares = dict[tuple[str, str], tuple[float, float]]
"""Fields of queues: what each is, and what it is raised to."""


def _start_with(changed: Shares, start: Start) -> tuple[str, ...] | None:
    return start(_all(*(change_queue(name, {each: value}) for (name, each), (_, value) in changed.items())))


def _least(changed: Shares, start: Start) -> Shares:
    """As few fields as start the gang, each raised by as little as does."""
    for place in tuple(changed):
        fewer = {each: value for each, value in changed.items() if each != place}
        if fewer and _start_with(fewer, start) is not None:
            changed = fewer
    for place, (now, enough) in tuple(changed.items()):
        too_little, step = now, _STEPS[place[1].partition(".")[0]]
        while enough - too_little > step:
            middle = (enough + too_little) / 2 // step * step
            if middle <= too_little:
                break
            if _start_with({**changed, place: (now, middle)}, start) is None:
                too_little = middle
            else:
                enough = middle
        changed = {**changed, place: (now, enough)}
    return changed


def _raised(
    queue: QueueState, bounds: Sequence[float], wanted: tuple[float, float, float]
) -> Iterator[tuple[int, float]]:
    """The amounts of a queue that are too small for what it has and the gang wants, and what would do."""
    for index in range(len(_NAMES)):
        need = queue.allocated[index] + wanted[index]
        if wanted[index] and bounds[index] != -1 and bounds[index] < need:
            yield index, need / _UNITS[index]


def _all(*changes: Change) -> Change:
    def change(snapshot: Snapshot) -> Snapshot:
        for each in changes:
            snapshot = each(snapshot)
        return snapshot

    return change


def _nodes(snapshot: Snapshot, start: Start) -> Iterator[Remedy]:
    """The fewest nodes like one there is."""
    for model in _models(snapshot):
        count = _fewest(model.name, start)
        if count is not None:
            evicts = start(add_nodes(model.name, count)) or ()
            text = f"{count} more {'node' if count == 1 else 'nodes'} like {model.name}"
            yield Remedy(kind="nodes", text=text, evicts=evicts)


def _fewest(like: str, start: Start) -> int | None:
    enough = 1
    while start(add_nodes(like, enough)) is None:
        enough *= 2
        if enough > _MOST_NODES:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if start(add_nodes(like, middle)) is None:
            too_few = middle
        else:
            enough = middle
    return enough


def _models(snapshot: Snapshot) -> list[NodeInfo]:
    """One node of each kind, those with the most GPUs first."""
    kinds: dict[object, NodeInfo] = {}
    for node in snapshot.nodes:
        kinds.setdefault((node.allocatable, node.taints), node)
    return sorted(kinds.values(), key=lambda node: node.allocatable.gpu, reverse=True)[:_MODELS]
