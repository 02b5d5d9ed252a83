"""What counts where nothing is said."""

from __future__ import annotations

from quarterdeck.api import Key
from quarterdeck.scheduler import Settings
from quarterdeck.scheduler.decision import Bind
from quarterdeck.scheduler.device import (
    MOST_CONSUMERS,
    AllocatedDevice,
    DeviceConstraintInfo,
    DeviceId,
    DeviceRequestInfo,
)
from quarterdeck.scheduler.resource import NOTHING, Resources
from quarterdeck.scheduler.snapshot import (
    BindRequestInfo,
    GpuShare,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    PriorityClassInfo,
    QueueInfo,
    QueueResource,
    SubGroupInfo,
)


def test_settings_of_a_cycle() -> None:
    found = Settings()
    assert [str(each) for each in found.actions] == [
        "allocate",
        "consolidation",
        "reclaim",
        "preempt",
        "stalegangeviction",
    ]
    assert (found.staleness_grace_period, found.max_consolidation_preemptees) == (60, 16)
    assert found.full_hierarchy_fairness
    assert found.allow_consolidating_reclaim
    assert found.use_scheduling_signatures
    assert not found.detailed_fit_errors
    assert (found.k_value, found.reclaimer_saturation_multiplier) == (1, 1)
    assert (found.preempt_min_runtime, found.reclaim_min_runtime, found.queue_depth) == (0, 0, ())


def test_nodes_and_queues() -> None:
    node = NodeInfo(name="n", allocatable=NOTHING)
    assert Resources(0, 0, 0, ()) == NOTHING
    assert (node.pods, node.gpu_memory, node.claimable_gpus) == (110, 0, 0)
    assert (node.is_ready, node.is_unschedulable) == (True, False)
    queue = QueueInfo(name="q")
    assert (queue.priority, queue.gpu, queue.cpu) == (100, QueueResource(0, 0, 0), QueueResource(0, 0, 0))
    assert not PriorityClassInfo(name="p", value=1).is_global_default


def test_pods_and_their_groups() -> None:
    pod = PodInfo(namespace="ns", name="p", uid="u")
    assert (pod.is_deleted, pod.is_gated, pod.claimed_gpus) == (False, False, 0)
    assert GpuShare(0.5) == GpuShare(0.5, 0, 1)
    group = PodGroupInfo(namespace="ns", name="g")
    assert (group.min_member, group.mark_unschedulable, group.scheduling_backoff) == (0, True, -1)
    assert SubGroupInfo(name="s").min_member == 0
    request = BindRequestInfo(namespace="ns", name="r", pod="p", node="n")
    assert (request.failed_attempts, request.backoff_limit) == (0, None)
    bind = Bind(pod=Key("ns", "p"), pod_group=Key("ns", "g"), node="n")
    assert (bind.gpu_count, bind.gpu_portion, bind.is_fraction, bind.is_mig) == (0, 1, False, False)


def test_devices() -> None:
    request = DeviceRequestInfo(name="r", sort="s")
    assert (request.count, request.is_all, request.is_admin) == (1, False, False)
    assert not DeviceConstraintInfo(attribute="a").is_distinct
    assert not AllocatedDevice("r", DeviceId("driver", "pool", "name")).is_admin
    assert MOST_CONSUMERS == 256
