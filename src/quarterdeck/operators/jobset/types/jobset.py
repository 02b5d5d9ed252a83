"""JobSet: a group of Jobs that start, fail and finish together (jobset.x-k8s.io/v1alpha2).

Fields, defaults and rules follow the definition that kubernetes-sigs/jobset ships; what a newer one adds
survives as unknown fields. What admission adds to it is in ``quarterdeck.operators.jobset.logic``.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from quarterdeck.api.crd import crd
from quarterdeck.api.k8s.batch import JobTemplateSpec
from quarterdeck.api.k8s.volume import PersistentVolumeClaimSpec, PersistentVolumeClaimStatus
from quarterdeck.api.marker import Atomic, Cel, Default, Enum, Ge, Int32, Len, ListMap, Required
from quarterdeck.api.meta import Condition, ObjectMeta
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, field, omitempty
from quarterdeck.api.resource import Column, Resource
from quarterdeck.operators.jobset.types import names

_IMMUTABLE: Final = Cel("self == oldSelf", message="Value is immutable")


class DependsOn(Model):
    """An earlier ReplicatedJob, and how far it has to be."""

    name: Annotated[str, Required()] = omitempty("")
    """Name of the replicated job that must come first."""
    status: Annotated[str, Enum(names.READY, names.COMPLETE), Required()] = omitempty("")
    """Ready counts Jobs that are ready, succeeded or failed; Complete those that succeeded."""


class ReplicatedJob(Model):
    """Jobs of one template, named ``<jobset>-<name>-<index>``."""

    name: Annotated[str, Required()] = omitempty("")
    """Name of the replicated job; part of the names of its Jobs."""
    group_name: Annotated[str, Default("default")] = omitempty("")
    """Group whose members are counted together."""
    template: Annotated[JobTemplateSpec, Required()] = omitempty(JobTemplateSpec())
    replicas: Annotated[Maybe[int], Int32, Ge(0), Default(1)] = UNSET
    """Number of Jobs made from the template."""
    depends_on: Annotated[Seq[DependsOn], ListMap("name"), Len(max=5), _IMMUTABLE] = omitempty(())
    """Jobs are made only when all of these are met; not together with startup order InOrder."""


class Network(Model):
    """How pods find each other."""

    enable_dns_hostnames: Maybe[bool] = field(name="enableDNSHostnames", default=UNSET)
    """Pods have the DNS names ``<jobset>-<job>-<jobIndex>-<podIndex>.<subdomain>``."""
    subdomain: str = omitempty("")
    """Name of the headless Service; the name of the JobSet unless set."""
    publish_not_ready_addresses: Maybe[bool] = UNSET
    """Whether pods have DNS records before they are ready; true unless set."""


class SuccessPolicy(Model):
    """When the JobSet has succeeded."""

    operator: Annotated[str, Enum(names.ALL, names.ANY), Required()] = omitempty("")
    """Whether all Jobs concerned have to succeed, or one is enough."""
    target_replicated_jobs: Annotated[Seq[str], Atomic()] = omitempty(())
    """ReplicatedJobs concerned; all when empty."""


class FailurePolicyRule(Model):
    """What is done about a failed Job that meets every requirement of the rule."""

    name: Annotated[str, Required()] = omitempty("")
    """``failurePolicyRule<index>`` unless set."""
    action: Annotated[
        str,
        Enum(
            names.FAIL_JOBSET,
            names.RESTART_JOBSET,
            names.RESTART_JOBSET_IGNORING_MAX,
            names.RESTART_JOB,
            names.RESTART_JOB_IGNORING_MAX,
        ),
        Required(),
    ] = omitempty("")
    """The action: FailJobSet, RestartJobSet or another one that the type allows."""
    on_job_failure_reasons: Seq[str] = omitempty(())
    """Reasons of the Job's condition Failed; any when empty."""
    on_job_failure_message_patterns: Seq[str] = omitempty(())
    """Regular expressions (RE2) for the message of that condition; any message when empty."""
    target_replicated_jobs: Annotated[Seq[str], Atomic()] = omitempty(())
    """ReplicatedJobs concerned; all when empty."""


class FailurePolicy(Model):
    """What is done about failed Jobs."""

    max_restarts: Annotated[Maybe[int], Int32] = UNSET
    """Restarts before the JobSet fails; none unless set."""
    restart_strategy: Annotated[
        str,
        Enum(names.RECREATE, names.BLOCKING_RECREATE, names.IN_PLACE_RESTART),
        Default(names.RECREATE),
    ] = omitempty("")
    """Recreate creates a Job again once its predecessor is gone, BlockingRecreate once all are."""
    rules: Seq[FailurePolicyRule] = omitempty(())
    """The first rule that matches decides; RestartJobSet if none does."""


class StartupPolicy(Model):
    """In which order ReplicatedJobs start (``dependsOn`` says more)."""

    startup_policy_order: Annotated[str, Enum(names.ANY_ORDER, names.IN_ORDER), Required()] = omitempty("")
    """AnyOrder, or InOrder of the list."""


class Coordinator(Model):
    """The pod whose address all Jobs and pods get as an annotation."""

    replicated_job: Annotated[str, Required()] = omitempty("")
    """The replicated job that the coordinator belongs to."""
    job_index: Maybe[int] = UNSET
    """Number of its Job."""
    pod_index: Maybe[int] = UNSET
    """Number of its pod."""


class VolumeRetentionPolicy(Model):
    """What happens to claims when the JobSet is deleted."""

    when_deleted: Annotated[Maybe[str], Enum(names.DELETE, names.RETAIN), Default(names.DELETE)] = UNSET
    """What happens to the volumes when the JobSet is deleted: Delete or Retain."""


class VolumeClaimTemplate(Model):
    """A claim to create; ``metadata.namespace`` must be empty."""

    api_version: str = omitempty("")
    kind: str = omitempty("")
    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: PersistentVolumeClaimSpec = omitempty(PersistentVolumeClaimSpec())
    status: Maybe[PersistentVolumeClaimStatus] = UNSET


class VolumeClaimPolicy(
    Model,
    rules=[
        Cel(
            "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
            message="namespace cannot be set for VolumeClaimPolicies templates",
        )
    ],
):
    """Claims that the pods of the JobSet share, named ``<claim>-<jobset>``."""

    templates: Annotated[Seq[VolumeClaimTemplate], Atomic(), Len(max=50)] = omitempty(())
    retention_policy: Maybe[VolumeRetentionPolicy] = UNSET


class JobSetSpec(
    Model,
    rules=[
        Cel(
            "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && "
            "self.replicatedJobs.exists(x, has(x.dependsOn)))",
            message="StartupPolicy and DependsOn APIs are mutually exclusive",
        )
    ],
):
    """What the set consists of and how it behaves."""

    replicated_jobs: Annotated[Seq[ReplicatedJob], ListMap("name")] = omitempty(())
    network: Annotated[Maybe[Network], _IMMUTABLE] = UNSET
    success_policy: Annotated[Maybe[SuccessPolicy], _IMMUTABLE] = UNSET
    failure_policy: Annotated[Maybe[FailurePolicy], _IMMUTABLE] = UNSET
    startup_policy: Annotated[Maybe[StartupPolicy], _IMMUTABLE] = UNSET
    suspend: Maybe[bool] = UNSET
    """Suspends all child Jobs."""
    coordinator: Maybe[Coordinator] = UNSET
    managed_by: Maybe[str] = UNSET
    """Who reconciles the JobSet; the built-in controller unless set to another name."""
    ttl_seconds_after_finished: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """Seconds after which a finished JobSet is deleted; it stays unless set."""
    volume_claim_policies: Annotated[Seq[VolumeClaimPolicy], Atomic(), Len(max=50), _IMMUTABLE] = omitempty(
        ()
    )


class ReplicatedJobStatus(Model):
    """Child Jobs of one ReplicatedJob, counted."""

    name: Annotated[str, Required()] = omitempty("")
    """Name of the replicated job."""
    ready: Annotated[int, Int32, Required()] = 0
    """Jobs with as many ready and succeeded pods as they want to run at once."""
    succeeded: Annotated[int, Int32, Required()] = 0
    """Jobs that succeeded."""
    failed: Annotated[int, Int32, Required()] = 0
    """Jobs that failed."""
    active: Annotated[int, Int32, Required()] = 0
    """Jobs with a pod that is pending or running."""
    suspended: Annotated[int, Int32, Required()] = 0
    """Jobs that are suspended."""
    job_restarts: Annotated[Seq[Annotated[int, Int32]], Atomic(), Len(max=1024)] = omitempty(())
    """Restarts of single Jobs, by index."""
    job_restarts_count_towards_max: Annotated[Seq[Annotated[int, Int32]], Atomic(), Len(max=1024)] = (
        omitempty(())
    )
    """Those of them that count towards maxRestarts, by index."""


class JobSetStatus(Model):
    """What became of the set."""

    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    restarts: Annotated[Maybe[int], Int32] = UNSET
    """Restarts of the whole set."""
    restarts_count_towards_max: Annotated[Maybe[int], Int32] = UNSET
    """Those that failurePolicy.maxRestarts limits."""
    terminal_state: str = omitempty("")
    """Completed or Failed; empty until then."""
    replicated_jobs_status: Annotated[Seq[ReplicatedJobStatus], ListMap("name")] = omitempty(())
    previous_in_place_restart_attempt: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """The attempt before the current restart in place; never written, because such restarts are refused."""
    current_in_place_restart_attempt: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """The current restart in place; never written, because such restarts are refused."""


class JobSet(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    columns=[
        Column("TerminalState", ".status.terminalState", description="Final state of JobSet"),
        Column("Restarts", ".status.restarts", description="Number of restarts"),
        Column("Completed", '.status.conditions[?(@.type=="Completed")].status'),
        Column("Suspended", ".spec.suspend", description="JobSet suspended"),
        Column("Age", ".metadata.creationTimestamp", "date", description="Time this JobSet was created"),
    ],
):
    """Jobs that form one workload."""

    spec: JobSetSpec = omitempty(JobSetSpec())
    status: JobSetStatus = omitempty(JobSetStatus())


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of JobSet."""
    return crd(JobSet)
