"""The grouper of JobSets: one gang with a tree of subgroups.

Each replicated job is a subgroup, and each of its replicas a leaf below it. How many replicated jobs must
start together depends on whether the JobSet starts them in order. Pods that do not tell which replica they
are of, and JobSets that have groups without subgroups from an earlier version, are grouped flat: a gang for
each replicated job that starts in order, or one for all.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.wire.gostyle import quote

from .default import constraint_of, default_plan, group_name, minimum_of
from .field import items_at, object_at, text_at, whole_at
from .plan import GroupingError, GroupPlan, SubGroupPlan
from .workload import Workload

REPLICATED_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-index"
IN_ORDER: Final = "InOrder"


def group_job_set(workload: Workload) -> GroupPlan:
    """One group for the JobSet; raises ``GroupingError`` if the pod's part of it cannot be told."""
    pod, job_set = workload.pod.metadata, workload.top_owner
    where = f"{job_set.metadata.namespace}/{job_set.metadata.name}"
    if not job_set.metadata.name or not job_set.metadata.uid:
        raise GroupingError(f"jobset top owner {where} missing name or UID")
    job = pod.labels.get(REPLICATED_JOB_LABEL)
    if not job:
        raise GroupingError(
            f"pod {pod.namespace}/{pod.name} missing required label {quote(REPLICATED_JOB_LABEL)}"
        )
    jobs = items_at(job_set, "spec", "replicatedJobs") or ()
    if not jobs:
        raise GroupingError(f"jobset {where} has no replicatedJobs")
    index = pod.labels.get(JOB_INDEX_LABEL)
    if not index or any(not group.spec.sub_groups for group in workload.groups):
        return _flat(workload, job)
    groups = [group for place, each in enumerate(jobs) for group in _sub_groups(each, place)]
    leaf = _leaf_name(job, index)
    if leaf not in {group.name for group in groups}:
        raise GroupingError(f"leaf subgroup {quote(leaf)} not found for pod {pod.namespace}/{pod.name}")
    return msgspec.structs.replace(
        default_plan(workload, job_set),
        min_member=0,
        min_sub_group=_jobs_to_start(job_set, len(jobs)),
        sub_groups=tuple(
            msgspec.structs.replace(group, pods=frozenset({pod.name})) if group.name == leaf else group
            for group in groups
        ),
    )


def _jobs_to_start(job_set: Any, count: int) -> int:
    """How many replicated jobs must start together: what the JobSet says, one if they start in order."""
    wanted = minimum_of(job_set.metadata.annotations, "JobSet")
    if wanted is not None:
        return min(wanted, count)
    return 1 if text_at(job_set, "spec", "startupPolicy", "startupPolicyOrder") == IN_ORDER else count


def _sub_groups(job: Any, place: int) -> list[SubGroupPlan]:
    """A replicated job, and its replicas below it."""
    name = text_at(job, "name")
    if not name:
        raise GroupingError(f"replicatedJobs[{place}] missing name")
    replicas = whole_at(job, "replicas")
    replicas = replicas if replicas is not None else 1
    annotations = object_at(job, "template", "metadata", "annotations") or {}
    minimum = minimum_of(annotations, "replicatedJob template")
    if minimum is None:
        parallelism = whole_at(job, "template", "spec", "parallelism")
        minimum = parallelism if parallelism is not None else 1
    constraint = constraint_of(annotations)
    is_bound = constraint.topology and (
        constraint.required_topology_level or constraint.preferred_topology_level
    )
    return [
        SubGroupPlan(name=name, min_sub_group=replicas),
        *(
            SubGroupPlan(
                name=_leaf_name(name, str(index)),
                min_member=minimum,
                is_optional=minimum == 0,
                parent=name,
                constraint=constraint if is_bound else None,
            )
            for index in range(replicas)
        ),
    ]


def _leaf_name(job: str, index: str) -> str:
    return f"{job}-replica-{index}"


def _flat(workload: Workload, job: str) -> GroupPlan:
    """One group for the replicated job of the pod, or one for all of them.

    Replicated jobs that are started in order cannot wait for each other, so each is a gang of its own.
    """
    job_set = workload.top_owner
    plan = default_plan(workload, job_set)
    sizes = {text_at(each, "name"): _size(each) for each in items_at(job_set, "spec", "replicatedJobs") or ()}
    order = text_at(job_set, "spec", "startupPolicy", "startupPolicyOrder")
    if order is not None and order != IN_ORDER:
        return msgspec.structs.replace(plan, min_member=max(sum(sizes.values()), 1))
    name = group_name(job_set.metadata.name, job_set.metadata.uid, job)
    return msgspec.structs.replace(plan, name=name, min_member=sizes.get(job, 1))


def _size(job: Any) -> int:
    """Pods of a replicated job that run at once."""
    parallelism = _positive(whole_at(job, "template", "spec", "parallelism"))
    completions = whole_at(job, "template", "spec", "completions")
    pods = parallelism if completions is None else min(parallelism, _positive(completions))
    return _positive(whole_at(job, "replicas")) * pods


def _positive(number: int | None) -> int:
    return number if number is not None and number > 0 else 1
