"""Groupers of Kubernetes' own workloads whose pods start alone."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api import owner_reference
from quarterdeck.operators.kai import names

from .default import default_plan, group_name, minimum_of
from .plan import GroupingError, GroupPlan
from .workload import Workload

SPARK_APP_LABEL: Final = "spark-app-name"
SPARK_SELECTOR_LABEL: Final = "spark-app-selector"


def group_deployment(workload: Workload) -> GroupPlan:
    """One group for each pod, which owns it: replicas of a service are not a gang."""
    plan = default_plan(workload, workload.top_owner, priority=names.INFERENCE)
    metadata = workload.pod.metadata
    return msgspec.structs.replace(
        plan, name=group_name(metadata.name, metadata.uid), owner=owner_reference(workload.pod)
    )


def group_job(workload: Workload) -> GroupPlan:
    """One group for the Job, which starts with its first pod unless the Job asks for more at once.

    A pod that has a group of its own, as earlier versions made them, keeps it.
    """
    job = workload.top_owner
    plan = default_plan(workload, job)
    own = group_name(workload.pod.metadata.name, job.metadata.uid)
    if own in {group.metadata.name for group in workload.groups}:
        return msgspec.structs.replace(plan, name=own)
    return msgspec.structs.replace(plan, min_member=minimum_of(job.metadata.annotations, "Job") or 1)


def group_cron_job(workload: Workload) -> GroupPlan:
    """One group for each run: the Job that the pod is of."""
    job = next((owner for owner in workload.owners if owner.gvk.kind == "Job"), None)
    if job is None:
        raise GroupingError("no owner reference of type 'Job'")
    return default_plan(workload, job)


def group_pod(workload: Workload) -> GroupPlan:
    """One group for a pod without an owner; pods of a Spark application, which the driver owns, share one."""
    plan = default_plan(workload, workload.top_owner)
    labels = workload.pod.metadata.labels
    if SPARK_APP_LABEL not in labels or SPARK_SELECTOR_LABEL not in labels:
        return plan
    return msgspec.structs.replace(plan, name=labels[SPARK_SELECTOR_LABEL])
