"""Groupers of kinds that differ from the default in one thing only."""

from __future__ import annotations

import msgspec

from quarterdeck.operators.kai import names

from .default import default_plan, group_name
from .field import whole_at
from .plan import GroupingError, GroupPlan
from .workload import Workload


def group_notebook(workload: Workload) -> GroupPlan:
    """Somebody sits before it: it is not preempted unless it says so."""
    return default_plan(workload, workload.top_owner, priority=names.BUILD)


def group_spot_request(workload: Workload) -> GroupPlan:
    """It serves."""
    return default_plan(workload, workload.top_owner, priority=names.INFERENCE)


def group_aml_job(workload: Workload) -> GroupPlan:
    """A gang of as many pods as it asks nodes for."""
    job = workload.top_owner
    count = whole_at(job, "spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    if count is None:
        raise GroupingError("azureml envs count not found in spec")
    return msgspec.structs.replace(default_plan(workload, job), min_member=count)


def group_runai_job(workload: Workload) -> GroupPlan:
    """One group for the pods of one index: their names differ in the last part."""
    job = workload.top_owner
    name, dash, _ = workload.pod.metadata.name.rpartition("-")
    base = name if dash else workload.pod.metadata.name
    return msgspec.structs.replace(default_plan(workload, job), name=group_name(base, job.metadata.uid))
