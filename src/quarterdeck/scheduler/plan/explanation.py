"""Why a gang waits: what is missing, per queue and per topology domain, and who could make room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from quarterdeck.api import Key
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import CycleResult, Evict, NotReady, PodState, Unschedulable
from quarterdeck.scheduler.fiterror import CORES, GIGABYTES, amount_text
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import QueueState, at_most, plus
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.placement.capacity import over_capacity
from quarterdeck.scheduler.victim.minruntime import is_protected_from_preemption, is_protected_from_reclaim
from quarterdeck.scheduler.victim.reclaim import may_reclaim, parting

from .record import Recorded
from .table import counted, table

_ROWS = 8
"""Of each table; a screen is small."""


class LeafRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subgroup: how many pods it needs, and how many it has."""

    name: str
    minimum: int
    active: int
    waiting: int


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue from the gang's up to the root; amounts of GPUs, -1 is no bound."""

    name: str
    quota: float
    limit: float
    fair_share: float
    allocated: float
    requested: float


class DomainRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topology domain that the gang, or a subgroup of it, could be placed in."""

    subgroup: str
    domain: str
    free_gpus: float
    fits: int
    """How many of its pods find room there."""
    needed: int


class VictimRow(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that runs, and whether it could make room."""

    pod_group: str
    queue: str
    priority: int
    pods: int
    gpus: float
    verdict: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one gang."""

    pod_group: str
    queue: str
    priority: int
    is_preemptible: bool
    outcome: str
    """What the next cycle does about it."""
    missing: str
    """What its next pods ask for together; empty if nothing waits."""
    message: str
    leaves: tuple[LeafRow, ...]
    queues: tuple[QueueRow, ...]
    refusal: str
    """Why the queues refuse it; empty if they do not."""
    domains: tuple[DomainRow, ...]
    victims: tuple[VictimRow, ...]

    def text(self) -> str:
        """One screen."""
        kind = "preemptible" if self.is_preemptible else "non-preemptible"
        lines = [
            f"{self.pod_group}: queue {self.queue}, priority {self.priority}, {kind}",
            f"next cycle: {self.outcome}",
        ]
        if self.missing:
            lines.append(f"missing: {self.missing}")
        lines += [f"  {line}" for line in self.message.splitlines() if line]
        lines += _section(
            "subgroups",
            ("subgroup", "minimum", "placed", "waiting"),
            [(each.name, each.minimum, each.active, each.waiting) for each in self.leaves],
        )
        lines += _section(
            "queues (GPUs)",
            ("queue", "quota", "limit", "fair share", "allocated", "requested"),
            [
                (
                    each.name,
                    _amount(each.quota),
                    _amount(each.limit),
                    _amount(each.fair_share),
                    _amount(each.allocated),
                    _amount(each.requested),
                )
                for each in self.queues
            ],
        )
        if self.refusal:
            lines.append(f"  {self.refusal}")
        lines += _section(
            "domains",
            ("domain", "for", "free GPUs", "pods that fit", "needed"),
            [
                (each.domain, each.subgroup or "the gang", _amount(each.free_gpus), each.fits, each.needed)
                for each in self.domains
            ],
        )
        lines += _section(
            "who could make room",
            ("pod group", "queue", "priority", "pods", "GPUs", "verdict"),
            [
                (each.pod_group, each.queue, each.priority, each.pods, _amount(each.gpus), each.verdict)
                for each in self.victims
            ],
        )
        return "\n".join(lines)


def explain(recorded: Recorded, key: Key) -> Explanation:
    """What the next cycle makes of a pod group, and why; ``SchemaError`` if there is no such group."""
    cluster = Cluster(recorded.snapshot, recorded.settings)
    job = cluster.jobs.get(key)
    if job is None:
        raise SchemaError(f"there is no pod group {key} in the snapshot")
    result = schedule(recorded.snapshot, recorded.settings)
    tasks = job.tasks_to_allocate()
    refusal = over_capacity(job, job.wanted()) if job.queue is not None and tasks else None
    return Explanation(
        pod_group=str(key),
        queue=job.info.queue,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        outcome=_outcome(job, result),
        missing=_missing(tasks),
        message=_message(job, result),
        leaves=tuple(_leaf(leaf) for leaf in job.leaves.values()),
        queues=tuple(_queue(queue) for queue in (job.queue.chain if job.queue is not None else ())),
        refusal=refusal.messages[0] if refusal is not None else "",
        domains=tuple(_domains(cluster, job, tasks)),
        victims=tuple(_victims(cluster, job, result)) if tasks else (),
    )


def _outcome(job: Job, result: CycleResult) -> str:
    counts: dict[PodState, int] = {}
    for task in job.tasks:
        state = result.pods[task.key].state
        counts[state] = counts.get(state, 0) + 1
    words = {
        PodState.ALLOCATED: "{} bound",
        PodState.PIPELINED: "{} promised a node that is being freed",
        PodState.RELEASING: "{} terminating",
        PodState.PENDING: "{} waiting",
        PodState.GATED: "{} gated",
    }
    parts = [words[state].format(counts.pop(state)) for state in words if state in counts]
    running = sum(count for state, count in counts.items() if state in ACTIVE)
    if running:
        parts.insert(0, f"{running} running")
    return ", ".join(parts) or "no pods"


def _missing(tasks: Sequence[Task]) -> str:
    if not tasks:
        return ""
    total = [sum(task.wanted[index] for task in tasks) for index in range(3)]
    more = sorted({name for task in tasks for name, _ in task.shape.scalars})
    texts = [counted(len(tasks), "pod")]
    if total[2]:
        texts.append(counted(total[2], "GPU"))
    texts += [f"{amount_text(total[0], CORES)} CPU", f"{amount_text(total[1], 2**30)} GiB of memory", *more]
    return ", ".join(texts)


def _message(job: Job, result: CycleResult) -> str:
    for each in result.decisions:
        if isinstance(each, Unschedulable | NotReady) and each.pod_group == job.key:
            return each.message
    return ""


def _leaf(leaf: Leaf) -> LeafRow:
    return LeafRow(
        name=leaf.name, minimum=leaf.minimum, active=leaf.active, waiting=leaf.counts[PodState.PENDING]
    )


def _queue(queue: QueueState) -> QueueRow:
    return QueueRow(
        name=queue.name,
        quota=queue.quota[2],
        limit=queue.limit[2],
        fair_share=queue.fair_share[2],
        allocated=queue.allocated[2],
        requested=queue.requested[2],
    )


def _domains(cluster: Cluster, job: Job, tasks: Sequence[Task]) -> Iterable[DomainRow]:
    """The domains of every part of the gang that has a constraint and pods to place, the best first."""
    for group in _parts(job.root):
        constraint = group.constraint
        leaves = [group] if isinstance(group, Leaf) else [*group.all_leaves()]
        mine = [task for task in tasks if task.leaf in leaves]
        tree = cluster.topologies.get(constraint.topology) if constraint is not None else None
        if constraint is None or tree is None or not mine:
            continue
        depth = tree.depth_of(constraint.required_level or constraint.preferred_level)
        if depth is None:
            continue
        shape = max((task.shape for task in mine), key=lambda shape: (shape.gpu, shape.cpu, shape.memory))
        rows = []
        domains = [tree.root]
        while domains and domains[0].depth < depth:
            domains = [child for domain in domains for child in domain.children.values()]
        for domain in domains:
            fits = sum(_copies(cluster, shape, node.name) for node in domain.set.nodes)
            rows.append(
                DomainRow(
                    subgroup=group.name,
                    domain=domain.id,
                    free_gpus=domain.gpu,
                    fits=fits,
                    needed=len(mine),
                )
            )
        yield from sorted(rows, key=lambda row: (-row.fits, row.domain))


def _copies(cluster: Cluster, shape: Shape, node: str) -> int:
    state = cluster.nodes[node]
    return 0 if cluster.predicates.objections_to(shape, state) else state.copies(shape)


def _parts(root: SubGroupSet) -> Iterable[SubGroupSet | Leaf]:
    yield root
    yield from root.leaves
    for child in root.sets:
        yield from _parts(child)


def _victims(cluster: Cluster, job: Job, result: CycleResult) -> Iterable[VictimRow]:
    """Everyone who runs; those who are evicted for it, then those who could be."""
    evicted = {
        each.pod_group for each in result.decisions if isinstance(each, Evict) and each.preemptor == job.key
    }
    rows = []
    for other in cluster.jobs.values():
        pods = [task for task in other.tasks if task.state in ACTIVE]
        if other is job or not pods:
            continue
        row = VictimRow(
            pod_group=str(other.key),
            queue=other.info.queue,
            priority=other.priority,
            pods=len(pods),
            gpus=round(sum(task.charge[2] for task in pods), 6),
            verdict=_verdict(cluster, job, other, evicted),
        )
        could = row.verdict.startswith("could")
        rows.append((other.key not in evicted, not could, other.priority, str(other.key), row))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:-1])]


def _verdict(cluster: Cluster, job: Job, victim: Job, evicted: Collection[Key]) -> str:
    if victim.key in evicted:
        return "is evicted for it in the next cycle"
    if not victim.is_preemptible:
        return "cannot be preempted"
    if job.queue is None or victim.queue is None:
        return "has no queue to compare"
    if victim.queue is job.queue:
        return _preemption(cluster, job, victim)
    return _reclaim(cluster, job, job.queue, victim, victim.queue)


def _preemption(cluster: Cluster, job: Job, victim: Job) -> str:
    if victim.priority >= job.priority:
        return f"its priority is not below {job.priority}"
    if is_protected_from_preemption(cluster, victim):
        return "started lately: protected by preemptMinRuntime"
    return "could be preempted, but that does not make enough room"


def _reclaim(cluster: Cluster, job: Job, queue: QueueState, victim: Job, other: QueueState) -> str:
    if not may_reclaim(job):
        return f"queue {queue.name} would be beyond its fair share"
    if is_protected_from_reclaim(cluster, victim, job):
        return "started lately: protected by reclaimMinRuntime"
    mine, theirs = parting(queue, other)
    starved = at_most(plus(mine.allocated, job.wanted()), mine.quota)
    if at_most(theirs.allocated, theirs.allocatable) and not (
        starved and not at_most(theirs.allocated, theirs.quota)
    ):
        return f"queue {theirs.name} is within its share"
    return "could be reclaimed, but that does not make enough room"


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    if not rows:
        return []
    lines = [f"{title}:", *table(head, rows[:_ROWS])]
    if len(rows) > _ROWS:
        lines.append(f"  … and {len(rows) - _ROWS} more")
    return lines


def _amount(amount: float) -> str:
    return "∞" if amount == -1 else amount_text(amount)


def cores(amount: float) -> str:
    """CPU as people count it."""
    return "∞" if amount == -1 else amount_text(amount, CORES)


def gigabytes(amount: float) -> str:
    """Memory as people count it."""
    return "∞" if amount == -1 else amount_text(amount, GIGABYTES)
