"""The cluster in memory: what a cycle starts from and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.affinity import PodAffinities
from quarterdeck.scheduler.model.claim import Claims
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.job import Job, priority_of
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.predicate import Predicates
from quarterdeck.scheduler.model.queue import QueueState, build_queues, set_fair_shares, times
from quarterdeck.scheduler.model.state import HOLDING, USED, state_of
from quarterdeck.scheduler.model.task import Amounts, Shape, Task
from quarterdeck.scheduler.model.topology import Topologies
from quarterdeck.scheduler.resource import Resources, mig_gpus
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import BindRequestInfo, PodInfo, Snapshot


class Cluster:
    """Nodes, queues, jobs and pods of a snapshot; shares are computed when it is built."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.now: Final = snapshot.now
        self.settings: Final = settings
        ordered = sorted(snapshot.nodes, key=lambda node: node.name)
        self.nodes: Final = {info.name: NodeState(info, rank) for rank, info in enumerate(ordered)}
        self.all_nodes: Final = NodeSet(list(self.nodes.values()))
        self.queues: Final = build_queues(snapshot.queues, full_hierarchy=settings.full_hierarchy_fairness)
        self.jobs: Final = self._jobs(snapshot)
        self.affinities: Final = PodAffinities(snapshot.pods, snapshot.namespaces)
        self.claims: Final = Claims(snapshot.devices, snapshot.claims)
        self.predicates: Final = Predicates(self.affinities, self.claims)
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._min_gpu_memory: Final = min(
            (node.gpu_memory for node in snapshot.nodes if node.gpu_memory), default=0
        )
        self.obsolete_bind_requests: Final[list[Key]] = []
        self.ignored: Final[list[Task]] = []
        """Pods that name a subgroup their group does not have as a leaf."""
        self.tasks: Final[dict[Key, Task]] = {}
        """The pods of jobs."""
        self._users: Final[list[Task]] = []
        """Pods of the snapshot that use claims."""
        self._foreign: list[float] = [0, 0, 0]
        self._jobs_by_name: Final = {(key.namespace, key.name): job for key, job in self.jobs.items()}
        self._held: Final[Counter[tuple[QueueState, Amounts, bool]]] = Counter()
        self._asked: Final[Counter[tuple[QueueState, Amounts]]] = Counter()
        self._add_pods(snapshot)
        if snapshot.claims:
            self.claims.seal(self._users)
        self._charge_queues()
        for job in self.jobs.values():
            job.seal()
        self.total: Final = self._total()
        set_fair_shares(self.queues, self.total, settings.k_value)
        self.topologies: Final = Topologies(snapshot.topologies, self.all_nodes.nodes)

    def _jobs(self, snapshot: Snapshot) -> dict[Key, Job]:
        jobs = {}
        for info in sorted(snapshot.pod_groups, key=lambda group: (group.name, group.namespace)):
            priority = priority_of(info, snapshot.priority_classes)
            jobs[info.key] = Job(info, priority, self.queues.get(info.queue))
        return jobs

    def _add_pods(self, snapshot: Snapshot) -> None:
        requests = self._bind_requests(snapshot.bind_requests)
        reserving: list[Task] = []
        for pod in sorted(snapshot.pods, key=lambda pod: (pod.name, pod.namespace)):
            request = requests.get(pod.key) if requests else None
            state = state_of(pod, request is not None)
            task = Task(pod, self._shape(pod), state, self._wanted(pod))
            if pod.node:
                task.node = self.nodes.get(pod.node)
            elif request is not None and state is PodState.BINDING:
                task.node = self.nodes[request.node]
                task.groups = request.gpu_groups or task.groups
                self._assume_claims(pod, request)
            if task.groups and task.shape.share is None and task.node is not None and not pod.pod_group:
                reserving.append(task)
                continue
            self._occupy(task)
            self._enlist(task)
        for task in reserving:
            self._reserve(task)

    def _assume_claims(self, pod: PodInfo, request: BindRequestInfo) -> None:
        given = dict(request.claims)
        for each in pod.claims:
            if each.reference in given:
                self.claims.assume(Key(pod.namespace, each.claim), given[each.reference])

    def _bind_requests(self, infos: Iterable[BindRequestInfo]) -> dict[Key, BindRequestInfo]:
        """Those still under way, by pod; the others are to be deleted."""
        found = {}
        for info in sorted(infos, key=lambda request: (request.namespace, request.name)):
            has_failed = info.phase == "Failed" and (
                info.backoff_limit is None or info.failed_attempts >= info.backoff_limit
            )
            if has_failed or info.node not in self.nodes:
                self.obsolete_bind_requests.append(Key(info.namespace, info.name))
            else:
                found[Key(info.namespace, info.pod)] = info
        return found

    def _shape(self, pod: PodInfo) -> Shape:
        if pod.claims:
            claims = self.claims.named(Key(pod.namespace, each.claim) for each in pod.claims)
            return Shape(pod.request, pod.gpu_share, pod.constraints, claims, pod.claimed_gpus)
        key = (pod.request, pod.gpu_share, pod.constraints)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(*key)
        return shape

    def _wanted(self, pod: PodInfo) -> Amounts:
        gpu, share = pod.request.gpu + pod.claimed_gpus, pod.gpu_share
        if pod.request.scalars:
            gpu += mig_gpus(pod.request.scalars)
        if share is not None and share.memory:
            # The device is not known yet: the smallest is assumed.
            gpu += share.devices * share.memory / self._min_gpu_memory if self._min_gpu_memory else 0
        elif share is not None:
            gpu += share.devices * share.portion
        return (pod.request.cpu, pod.request.memory, gpu)

    def _occupy(self, task: Task) -> None:
        node = task.node
        if node is None or task.state not in USED:
            return
        if task.shape.share is not None and not task.groups:
            task.groups = (task.info.uid,)  # a device nobody named is nobody else's
        leaves = task.state is PodState.RELEASING and not self._is_stuck(task.info)
        hold = Hold.LEAVING if leaves else Hold.RUNNING
        node.hold(task.shape, task.groups, hold, 1)
        if self.affinities.is_needed:
            self.affinities.hold(task.info, node, hold, 1)
        if task.shape.claims:
            self._users.append(task)
            self.claims.seat(task.shape.claims, hold)
        if task.info.scheduler_name != self.settings.scheduler_name and node.is_available:
            for resource, amount in enumerate(node.charge(task.shape)):
                self._foreign[resource] += amount

    def _is_stuck(self, pod: PodInfo) -> bool:
        """Whether a pod terminates for so long that it may be there for ever, on a node that is lost."""
        if pod.deleted is None or pod.phase != "Running":
            return False
        return self.now - pod.deleted > self.settings.stuck_in_releasing_threshold

    def _reserve(self, task: Task) -> None:
        """A pod that holds a device for those who share it: the device counts once, as long as they do."""
        node = task.node
        assert node is not None
        if any(node.gpus.is_in_use(group) for group in task.groups):
            pod = replace(task.info, request=replace(task.info.request, gpu=0))
            reserving, task = task, Task(pod, self._shape(pod), task.state, self._wanted(pod))
            task.node = reserving.node
        task.groups = ()
        self._occupy(task)

    def hold(self, task: Task, node: NodeState, groups: tuple[str, ...], hold: Hold, sign: int) -> None:
        """A pod comes to hold a node in some way (1), or stops to (-1)."""
        node.hold(task.shape, groups, hold, sign)
        if self.affinities.is_needed:
            self.affinities.hold(task.info, node, hold, sign)
        if task.shape.claims:
            self.claims.hold(task, node, hold, sign)

    def let_go(self, task: Task, node: NodeState, groups: tuple[str, ...], sign: int) -> None:
        """A pod that ran terminates (1), or runs on after all (-1)."""
        if task.shape.is_simple and not self.affinities.is_needed:
            node.let_go(task.shape, sign)
        else:
            self.hold(task, node, groups, Hold.RUNNING, -sign)
            self.hold(task, node, groups, Hold.LEAVING, sign)

    def _enlist(self, task: Task) -> None:
        pod = task.info
        job = self._jobs_by_name.get((pod.namespace, pod.pod_group)) if pod.pod_group else None
        if job is None or pod.scheduler_name != self.settings.scheduler_name:
            return
        if not job.add(task):
            self.ignored.append(task)
            return
        self.tasks[task.key] = task
        queue = job.queue
        if queue is None:
            return
        if task.state in HOLDING:
            task.charge = task.node.charge(task.shape) if task.node is not None else task.wanted
            self._held[queue, task.charge, job.is_preemptible] += 1
        elif task.state is PodState.PENDING:
            self._asked[queue, task.wanted] += 1
        elif task.state is PodState.RELEASING and (task.node is not None or pod.node):
            queue.leave(task.node.charge(task.shape) if task.node else task.wanted, job.is_preemptible)

    def _charge_queues(self) -> None:
        """What pods hold and ask for, equal amounts at once: queues have long chains and pods are many."""
        for (queue, amounts, is_preemptible), count in self._held.items():
            total = times(amounts, count)
            queue.charge(total, is_preemptible, 1)
            queue.request(total)
        for (queue, amounts), count in self._asked.items():
            queue.request(times(amounts, count))

    @cached_property
    def largest(self) -> Resources:
        """The most that any node has of each resource."""
        found = [node.info.allocatable for node in self.all_nodes.nodes]
        scalars: dict[str, int] = {}
        for each in found:
            for name, amount in each.scalars:
                scalars[name] = max(amount, scalars.get(name, 0))
        return Resources(
            max((each.cpu for each in found), default=0),
            max((each.memory for each in found), default=0),
            max((each.gpu for each in found), default=0),
            tuple(sorted(scalars.items())),
        )

    def _total(self) -> Amounts:
        """What ready nodes have, without what pods of other schedulers use of it."""
        cpu = memory = gpu = 0.0
        for node in self.all_nodes.nodes:
            if node.is_available:
                allocatable: Resources = node.info.allocatable
                cpu += allocatable.cpu
                memory += allocatable.memory
                gpu += allocatable.gpu + node.other_gpus
        foreign = self._foreign
        return (cpu - foreign[0], memory - foreign[1], gpu - foreign[2])
