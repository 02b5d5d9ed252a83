"""The gate before placing: limits of queues, and quotas for what cannot be preempted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quarterdeck.scheduler.decision import QueueDetails
from quarterdeck.scheduler.fiterror import (
    CORES,
    GIGABYTES,
    NON_PREEMPTIBLE_OVER_QUOTA,
    OVER_LIMIT,
    FitError,
    amount_text,
)
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import NO_AMOUNTS, QueueState
from quarterdeck.scheduler.model.task import Amounts
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import UNLIMITED


class _Unit(NamedTuple):
    """How a resource is called in messages."""

    title: str
    requested: str
    unit: str
    size: float

    def text(self, amount: float) -> str:
        return amount_text(amount, self.size)


_UNITS: Final = (
    _Unit("CPU cores", "CPU cores", "cores", CORES),
    _Unit("memory", "GB memory", "GB", GIGABYTES),
    _Unit("GPUs", "GPUs", "GPUs", 1),
)


def is_within_capacity(job: Job, amounts: Amounts) -> bool:
    """Whether the job's queue and all its ancestors let it have more."""
    assert job.queue is not None
    chain = job.queue.chain
    if any(_first_over(queue.limit, queue.allocated, amounts) is not None for queue in chain):
        return False
    return job.is_preemptible or is_within_quota(job, amounts)


def is_within_quota(job: Job, amounts: Amounts) -> bool:
    """Whether what cannot be preempted stays within the quota of every queue of the chain."""
    assert job.queue is not None
    return all(_first_over(queue.quota, queue.non_preemptible, amounts) is None for queue in job.queue.chain)


def over_capacity(job: Job, amounts: Amounts) -> FitError | None:
    """Why the job may not have more; none if it may."""
    assert job.queue is not None
    for queue in job.queue.chain:
        resource = _first_over(queue.limit, queue.allocated, amounts)
        if resource is not None:
            return _refusal(job, queue, resource, amounts, OVER_LIMIT, _over_limit)
    if job.is_preemptible:
        return None
    for queue in job.queue.chain:
        resource = _first_over(queue.quota, queue.non_preemptible, amounts)
        if resource is not None:
            return _refusal(job, queue, resource, amounts, NON_PREEMPTIBLE_OVER_QUOTA, _over_quota)
    return None


def _first_over(bound: Amounts, used: list[float], wanted: Amounts) -> int | None:
    for resource in range(3):
        need = wanted[resource]
        if need and bound[resource] != UNLIMITED and bound[resource] < used[resource] + need:
            return resource
    return None


def _refusal(
    job: Job,
    queue: QueueState,
    resource: int,
    amounts: Amounts,
    reason: str,
    text: Callable[[QueueState, int, float], str],
) -> FitError:
    details = QueueDetails(
        name=queue.name,
        requested=resources_from(queue.requested),
        deserved=resources_from(queue.quota),
        allocated=resources_from(queue.allocated),
        allocated_non_preemptible=resources_from(queue.non_preemptible),
        limits=resources_from(queue.limit),
        pod_group_requested=resources_from(amounts),
        pod_group_requested_non_preemptible=resources_from(NO_AMOUNTS if job.is_preemptible else amounts),
    )
    return FitError(reason=reason, messages=(text(queue, resource, amounts[resource]),), queue=details)


def resources_from(amounts: Amounts | list[float]) -> Resources:
    """Amounts of a queue as resources."""
    return Resources(int(amounts[0]), int(amounts[1]), amounts[2])


def _over_limit(queue: QueueState, resource: int, wanted: float) -> str:
    unit = _UNITS[resource]
    limit, has = unit.text(queue.limit[resource]), unit.text(queue.allocated[resource])
    return (
        f"{queue.title} quota has reached the allowable limit of {unit.title}. Limit is {limit} {unit.unit}, "
        f"currently {has} {unit.unit} allocated and workload requested {unit.text(wanted)} {unit.unit}"
    )


def _over_quota(queue: QueueState, resource: int, wanted: float) -> str:
    unit = _UNITS[resource]
    quota, has = unit.text(queue.quota[resource]), unit.text(queue.non_preemptible[resource])
    return (
        f"Non-preemptible workload is over quota. Workload requested {unit.text(wanted)} {unit.requested}, "
        f"but {queue.title} quota is {quota} {unit.unit}, while {has} {unit.unit} are already allocated "
        "for non-preemptible pods. Use a preemptible workload to go over quota."
    )
