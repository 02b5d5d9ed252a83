"""Groupers of Kubernetes' own workloads whose pods start alone."""

from __future__ import annotations

import msgspec

from quarterdeck.api import owner_reference
from quarterdeck.operators.kai import names

from .default import default_plan, group_name
from .plan import GroupPlan
from .workload import Workload

__all__ = ["group_deployment", "group_job"]


def group_deployment(workload: Workload) -> GroupPlan:
    """One group for each pod, which owns it: replicas of a service are not a gang."""
    plan = default_plan(workload, workload.top_owner, priority=names.INFERENCE)
    metadata = workload.pod.metadata
    return msgspec.structs.replace(
        plan, name=group_name(metadata.name, metadata.uid), owner=owner_reference(workload.pod)
    )


def group_job(workload: Workload) -> GroupPlan:
    """One group for each pod: the pods of a Job may run one after the other."""
    job = workload.top_owner
    plan = default_plan(workload, job)
    return msgspec.structs.replace(plan, name=group_name(workload.pod.metadata.name, job.metadata.uid))
