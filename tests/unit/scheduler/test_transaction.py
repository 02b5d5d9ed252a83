"""Changes that are taken back leave no trace; those that are committed become decisions."""

import random

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Action
from quarterdeck.scheduler.decision import Bind, Evict, Pipeline, PodState
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.model.topology import Domain
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, PodConstraints
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.message import evict
from tests.unit.scheduler.randomcluster import random_cluster

from .schedulerscene import NS, Scene, gpu_node


def domains(cluster: Cluster) -> list[Domain]:
    tree = cluster.topologies.get("t")
    found = [tree.root] if tree is not None else []
    for domain in found:
        found.extend(domain.children.values())
    return found


def state_of(cluster: Cluster) -> object:
    """Everything that a change may touch."""
    return (
        [
            (task.state, task.node, task.groups, task.charge, task.is_virtual, task.is_evicted)
            for task in cluster.tasks.values()
        ],
        [
            (account.cpu, account.memory, account.gpu, account.pods, dict(account.scalars), node.leaving)
            for node in cluster.nodes.values()
            for account in (node.idle, node.free)
        ],
        [(queue.allocated, queue.non_preemptible) for queue in cluster.queues.values()],
        [
            (leaf.active, leaf.used, {state: count for state, count in leaf.counts.items() if count})
            for job in cluster.jobs.values()
            for leaf in job.leaves.values()
        ],
        [(domain.cpu, domain.memory, domain.gpu) for domain in domains(cluster)],
    )


def change(cluster: Cluster, transaction: Transaction, chance: random.Random) -> None:
    """Evict a pod, let it stay after all, or give it a node, as its state allows."""
    task = chance.choice([*cluster.tasks.values()])
    if task.state in ACTIVE and task.node is not None and not task.is_evicted:
        transaction.evict(task)
    elif task.is_evicted and task.state is PodState.RELEASING and chance.random() < 0.5:
        transaction.restore(task)
    elif task.state is PodState.PENDING:
        node = chance.choice([*cluster.nodes.values()])
        transaction.place(task, node, (), chance.choice([PodState.ALLOCATED, PodState.PIPELINED]))
    elif task.is_evicted and task.state is PodState.RELEASING:
        transaction.place(task, chance.choice([*cluster.nodes.values()]), (), PodState.PIPELINED)


@pytest.mark.parametrize("seed", range(30))
def test_a_rollback_restores_everything(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(*random_cluster(seed))
    transaction = Transaction(cluster)
    marks = [(transaction.checkpoint(), transaction.version, state_of(cluster))]
    for _ in range(60):
        if chance.random() < 0.2:
            marks.append((transaction.checkpoint(), transaction.version, state_of(cluster)))
        elif len(marks) > 1 and chance.random() < 0.2:
            del marks[chance.randrange(1, len(marks)) + 1 :]
            position, version, state = marks.pop()
            transaction.rollback(position)
            assert (state_of(cluster), transaction.version) == (state, version)
        change(cluster, transaction, chance)
    assert transaction.version > 0
    transaction.rollback(0)
    assert (state_of(cluster), transaction.version) == marks[0][:0:-1]


def transaction_of(scene: Scene) -> tuple[Transaction, dict[str, Task]]:
    cluster = scene.cluster()
    return Transaction(cluster), {task.key.name: task for task in cluster.tasks.values()}


def eviction(task: Task, victims: int) -> Evict:
    return evict(task, Action.PREEMPT, "why", None, victims)


class TestCommit:
    def test_what_was_taken_back_is_not_decided(self) -> None:
        cluster = gpu_node(2).job("a", waiting=2, gpu=1).cluster()
        transaction = Transaction(cluster)
        first, second = cluster.tasks.values()
        node = cluster.nodes["n0"]
        transaction.place(first, node, (), PodState.ALLOCATED)
        position = transaction.checkpoint()
        transaction.place(second, node, (), PodState.ALLOCATED)
        transaction.rollback(position)
        transaction.commit()
        assert [each.pod.name for each in transaction.decisions()] == ["a-0"]

    def test_decisions_are_in_the_order_of_the_changes(self) -> None:
        cluster = gpu_node(2).job("low", "q", "n0", "n0", gpu=1).job("a", waiting=1, gpu=2).cluster()
        transaction = Transaction(cluster)
        new, old, other = (cluster.tasks[Key(NS, name)] for name in ("a-0", "low-0", "low-1"))
        transaction.evict(other)
        transaction.evict(old)
        transaction.place(new, cluster.nodes["n0"], (), PodState.PIPELINED)
        transaction.commit(eviction)
        assert [type(each) for each in transaction.decisions()] == [Evict, Evict, Pipeline]
        assert [each.pod.name for each in transaction.decisions()] == ["low-1", "low-0", "a-0"]
        assert {each.evicted_pods for each in transaction.decisions() if isinstance(each, Evict)} == {2}

    def test_a_pod_that_stays_is_not_evicted(self) -> None:
        transaction, tasks = transaction_of(gpu_node(2).job("low", "q", "n0", "n0", gpu=1))
        transaction.evict(tasks["low-0"])
        transaction.evict(tasks["low-1"])
        transaction.restore(tasks["low-0"])
        transaction.commit(eviction)
        assert [each.pod.name for each in transaction.decisions()] == ["low-1"]
        assert tasks["low-0"].state is PodState.RUNNING

    def test_a_gang_is_promised_as_a_whole(self) -> None:
        cluster = gpu_node(2).job("a", waiting=2, gpu=1).cluster()
        transaction = Transaction(cluster)
        node = cluster.nodes["n0"]
        for task in cluster.tasks.values():
            transaction.place(task, node, (), PodState.ALLOCATED)
        assert node.idle.gpu == 0
        (job,) = cluster.jobs.values()
        transaction.promise_all(job)
        transaction.commit()
        assert {type(each) for each in transaction.decisions()} == {Pipeline}
        assert (node.idle.gpu, node.free.gpu) == (2, 0)

    def test_binds_of_pods_that_are_evicted_later_in_the_cycle_are_withdrawn(self) -> None:
        cluster = gpu_node(1).job("a", waiting=1, gpu=1).cluster()
        transaction = Transaction(cluster)
        (task,) = cluster.tasks.values()
        transaction.place(task, cluster.nodes["n0"], (), PodState.ALLOCATED)
        transaction.commit()
        assert [type(each) for each in transaction.decisions()] == [Bind]
        transaction.evict(task)
        transaction.commit(eviction)
        assert transaction.decisions() == []
        assert (task.state, task.node) == (PodState.PENDING, None)


class TestPromisesOfIdleRoom:
    """Room that a later action takes from pods placed in the same cycle is idle in the cluster."""

    @staticmethod
    def cluster_and_transaction(*, b: int, gpus: int = 2) -> tuple[Cluster, Transaction, dict[str, Task]]:
        scene = gpu_node(gpus).job("low", "q", "n0", gpu=1).job("a", waiting=1, gpu=1)
        cluster = scene.job("b", waiting=b, gpu=1).cluster()
        transaction = Transaction(cluster)
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        transaction.place(tasks["a-0"], cluster.nodes["n0"], (), PodState.ALLOCATED)
        transaction.commit()
        return cluster, transaction, tasks

    def test_they_are_kept_at_once(self) -> None:
        cluster, transaction, tasks = self.cluster_and_transaction(b=1)
        node = cluster.nodes["n0"]
        transaction.evict(tasks["a-0"])
        transaction.place(tasks["b-0"], node, (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert [(type(each), each.pod.name) for each in transaction.decisions()] == [(Bind, "b-0")]
        assert tasks["a-0"].state is PodState.PENDING
        assert (node.idle.gpu, node.free.gpu) == (0, 0)

    def test_room_that_a_running_pod_leaves_is_waited_for(self) -> None:
        cluster, transaction, tasks = self.cluster_and_transaction(b=1)
        transaction.evict(tasks["low-0"])
        transaction.place(tasks["b-0"], cluster.nodes["n0"], (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert [type(each) for each in transaction.decisions()] == [Bind, Evict, Pipeline]

    def test_a_gang_gets_all_or_nothing_at_once(self) -> None:
        cluster, transaction, tasks = self.cluster_and_transaction(b=2)
        node = cluster.nodes["n0"]
        transaction.evict(tasks["low-0"])
        transaction.evict(tasks["a-0"])
        transaction.place(tasks["b-0"], node, (), PodState.PIPELINED)
        transaction.place(tasks["b-1"], node, (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert [type(each) for each in transaction.decisions()] == [Evict, Pipeline, Pipeline]
        assert (node.idle.gpu, node.free.gpu) == (1, 0)

    def test_a_gang_that_was_given_a_part_is_promised_it_again(self) -> None:
        cluster, transaction, tasks = self.cluster_and_transaction(b=2, gpus=3)
        node = cluster.nodes["n0"]
        transaction.place(tasks["b-0"], node, (), PodState.ALLOCATED)
        transaction.commit()
        transaction.evict(tasks["low-0"])
        transaction.place(tasks["b-1"], node, (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert [type(each) for each in transaction.decisions()] == [Bind, Pipeline, Evict, Pipeline]
        assert {tasks["b-0"].state, tasks["b-1"].state} == {PodState.PIPELINED}

    def test_who_was_promised_first_gets_it_first(self) -> None:
        scene = gpu_node(2).group("low").pod("low", "n0", gpu=1, is_deleted=True)
        cluster = scene.job("z", waiting=1, gpu=1).job("a", waiting=1, gpu=1, priority=75).cluster()
        transaction, node = Transaction(cluster), cluster.nodes["n0"]
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        for name in ("z-0", "a-0"):
            transaction.place(tasks[name], node, (), PodState.PIPELINED)
            transaction.commit(eviction)
        transaction.keep_promises()
        assert (tasks["z-0"].state, tasks["a-0"].state) == (PodState.ALLOCATED, PodState.PIPELINED)

    def test_idle_room_is_waited_for_with_those_who_have_to_leave_elsewhere(self) -> None:
        scene = gpu_node(1).node("n1", 1).job("low", "q", "n1", gpu=1)
        cluster = scene.job("b", waiting=1, gpu=1).cluster()
        transaction = Transaction(cluster)
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        transaction.evict(tasks["low-0"])
        transaction.place(tasks["b-0"], cluster.nodes["n0"], (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert tasks["b-0"].state is PodState.PIPELINED

    @pytest.mark.parametrize(("limit", "state"), [(2, PodState.PIPELINED), (3, PodState.ALLOCATED)])
    def test_a_limit_counts_those_who_terminate(self, limit: float, state: PodState) -> None:
        scene = Scene().node("n0", 8).queue("d", gpu=(-1, limit, 1)).queue("q", "d")
        scene.group("low").pod("low", "n0", gpu=1).pod("low", "n0", gpu=1, is_deleted=True)
        cluster = scene.job("b", waiting=1, gpu=1).cluster()
        transaction = Transaction(cluster)
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        transaction.place(tasks["b-0"], cluster.nodes["n0"], (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert tasks["b-0"].state is state

    def test_a_pod_beyond_a_minimum_that_waits_waits_with_it(self) -> None:
        scene = gpu_node(3).job("low", "q", "n0", "n0", gpu=1)
        cluster = scene.job("b", waiting=3, gpu=1, least=2).cluster()
        transaction, node = Transaction(cluster), cluster.nodes["n0"]
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        for number in (0, 1):
            transaction.evict(tasks[f"low-{number}"])
            transaction.place(tasks[f"b-{number}"], node, (), PodState.PIPELINED)
        transaction.place(tasks["b-2"], node, (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert tasks["b-2"].state is PodState.PIPELINED
        assert node.idle.gpu == 1

    def test_host_ports_that_are_in_use_are_waited_for(self) -> None:
        ports = PodConstraints(host_ports=(HostPort(80),))
        scene = gpu_node(2).group("low").pod("low", "n0", constraints=ports, is_deleted=True)
        cluster = scene.group("b").pod("b", constraints=ports).cluster()
        transaction, node = Transaction(cluster), cluster.nodes["n0"]
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        transaction.place(tasks["b-0"], node, (), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert tasks["b-0"].state is PodState.PIPELINED

    @pytest.mark.parametrize(("running", "state"), [(0.5, PodState.ALLOCATED), (0.75, PodState.PIPELINED)])
    def test_a_part_of_a_gpu_is_had_if_the_device_has_it_now(self, running: float, state: PodState) -> None:
        scene = Scene().node("n0", 1).queue("q").group("low")
        scene.pod("low", "n0", gpu_share=GpuShare(running), gpu_groups=("g",), is_deleted=True)
        cluster = scene.group("b").pod("b", gpu_share=GpuShare(0.5)).cluster()
        transaction, node = Transaction(cluster), cluster.nodes["n0"]
        tasks = {task.key.name: task for task in cluster.tasks.values()}
        transaction.place(tasks["b-0"], node, ("g",), PodState.PIPELINED)
        transaction.commit(eviction)
        transaction.keep_promises()
        assert tasks["b-0"].state is state
