"""Jobs and cron jobs.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime, Time
from quarterdeck.api.k8s.pod import PodTemplateSpec
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.api.marker import Atomic, Int32, Int64, ListSet, Required
from quarterdeck.api.meta import LabelSelector, ObjectMeta
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "Job",
    "JobCondition",
    "JobSpec",
    "JobStatus",
    "JobTemplateSpec",
    "PodFailurePolicy",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyRule",
    "SuccessPolicy",
    "SuccessPolicyRule",
    "UncountedTerminatedPods",
]


class PodFailurePolicyOnExitCodesRequirement(Model):
    container_name: Maybe[str] = UNSET
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[int], ListSet(), Required()] = omitempty(())


class PodFailurePolicyOnPodConditionsPattern(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: str = omitempty("")


class PodFailurePolicyRule(Model):
    action: Annotated[str, Required()] = omitempty("")
    on_exit_codes: Maybe[PodFailurePolicyOnExitCodesRequirement] = UNSET
    on_pod_conditions: Annotated[Seq[PodFailurePolicyOnPodConditionsPattern], Atomic()] = omitempty(())


class PodFailurePolicy(Model):
    rules: Annotated[Seq[PodFailurePolicyRule], Atomic(), Required()] = omitempty(())


class SuccessPolicyRule(Model):
    succeeded_indexes: Maybe[str] = UNSET
    succeeded_count: Annotated[Maybe[int], Int32] = UNSET


class SuccessPolicy(Model):
    rules: Annotated[Seq[SuccessPolicyRule], Atomic(), Required()] = omitempty(())


class JobSpec(Model):
    parallelism: Annotated[Maybe[int], Int32] = UNSET
    completions: Annotated[Maybe[int], Int32] = UNSET
    active_deadline_seconds: Annotated[Maybe[int], Int64] = UNSET
    pod_failure_policy: Maybe[PodFailurePolicy] = UNSET
    success_policy: Maybe[SuccessPolicy] = UNSET
    backoff_limit: Annotated[Maybe[int], Int32] = UNSET
    backoff_limit_per_index: Annotated[Maybe[int], Int32] = UNSET
    max_failed_indexes: Annotated[Maybe[int], Int32] = UNSET
    selector: Maybe[LabelSelector] = UNSET
    manual_selector: Maybe[bool] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    ttl_seconds_after_finished: Annotated[Maybe[int], Int32] = UNSET
    completion_mode: Maybe[str] = UNSET
    suspend: Maybe[bool] = UNSET
    pod_replacement_policy: Maybe[str] = UNSET
    managed_by: Maybe[str] = UNSET


class JobCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_probe_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class UncountedTerminatedPods(Model):
    succeeded: Annotated[Seq[str], ListSet()] = omitempty(())
    failed: Annotated[Seq[str], ListSet()] = omitempty(())


class JobStatus(Model):
    conditions: Annotated[Seq[JobCondition], Atomic()] = omitempty(())
    start_time: Maybe[Time] = UNSET
    completion_time: Maybe[Time] = UNSET
    active: Annotated[Maybe[int], Int32] = UNSET
    succeeded: Annotated[Maybe[int], Int32] = UNSET
    failed: Annotated[Maybe[int], Int32] = UNSET
    terminating: Annotated[Maybe[int], Int32] = UNSET
    completed_indexes: str = omitempty("")
    failed_indexes: Maybe[str] = UNSET
    uncounted_terminated_pods: Maybe[UncountedTerminatedPods] = UNSET
    ready: Annotated[Maybe[int], Int32] = UNSET


class Job(Resource, group="batch", version="v1", plural="jobs", status=True):
    spec: JobSpec = omitempty(JobSpec())
    status: JobStatus = omitempty(JobStatus())


class JobTemplateSpec(Model):
    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: JobSpec = omitempty(JobSpec())


class CronJobSpec(Model):
    schedule: Annotated[str, Required()] = omitempty("")
    time_zone: Maybe[str] = UNSET
    starting_deadline_seconds: Annotated[Maybe[int], Int64] = UNSET
    concurrency_policy: str = omitempty("")
    suspend: Maybe[bool] = UNSET
    job_template: Annotated[JobTemplateSpec, Required()] = omitempty(JobTemplateSpec())
    successful_jobs_history_limit: Annotated[Maybe[int], Int32] = UNSET
    failed_jobs_history_limit: Annotated[Maybe[int], Int32] = UNSET


class CronJobStatus(Model):
    active: Annotated[Seq[ObjectReference], Atomic()] = omitempty(())
    last_schedule_time: Maybe[Time] = UNSET
    last_successful_time: Maybe[Time] = UNSET


class CronJob(Resource, group="batch", version="v1", plural="cronjobs", short_names=["cj"], status=True):
    spec: Annotated[CronJobSpec, Required()] = omitempty(CronJobSpec())
    status: CronJobStatus = omitempty(CronJobStatus())
