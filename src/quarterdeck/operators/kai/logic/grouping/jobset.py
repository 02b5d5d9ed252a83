"""The grouper of JobSets: a gang for each replicated job, or one for all.

Replicated jobs that are started in order cannot wait for each other, so each is a gang of its own.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.wire.gostyle import quote

from .default import default_plan, group_name
from .field import items_at, text_at, whole_at
from .plan import GroupingError, GroupPlan
from .workload import Workload

REPLICATED_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
IN_ORDER: Final = "InOrder"


def group_job_set(workload: Workload) -> GroupPlan:
    """One group for the replicated job of the pod, or one for all of them."""
    pod, job_set = workload.pod.metadata, workload.top_owner
    job = pod.labels.get(REPLICATED_JOB_LABEL)
    if not job:
        raise GroupingError(
            f"pod {pod.namespace}/{pod.name} missing required label {quote(REPLICATED_JOB_LABEL)}"
        )
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
