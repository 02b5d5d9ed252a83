"""What admission fills in where a JobSet says nothing."""

from __future__ import annotations

from quarterdeck.api import UNSET
from quarterdeck.operators.jobset.types import (
    FailurePolicy,
    JobSet,
    Network,
    ReplicatedJob,
    StartupPolicy,
    SuccessPolicy,
    VolumeClaimPolicy,
    VolumeRetentionPolicy,
    names,
)


def with_defaults(jobset: JobSet) -> JobSet:
    """The JobSet as it is stored; the very same if nothing is missing."""
    spec = jobset.spec
    network = spec.network or Network()
    return jobset.evolve(
        spec=spec.evolve(
            success_policy=spec.success_policy or SuccessPolicy(operator=names.ALL),
            startup_policy=spec.startup_policy or StartupPolicy(startup_policy_order=names.ANY_ORDER),
            replicated_jobs=tuple(map(_job, spec.replicated_jobs)),
            network=network.evolve(
                enable_dns_hostnames=_true_unless_set(network.enable_dns_hostnames),
                publish_not_ready_addresses=_true_unless_set(network.publish_not_ready_addresses),
            ),
            failure_policy=_with_rule_names(spec.failure_policy) if spec.failure_policy else UNSET,
            volume_claim_policies=tuple(map(_claims, spec.volume_claim_policies)),
        )
    )


def _true_unless_set(value: object) -> object:
    return True if value is UNSET else value


def _job(job: ReplicatedJob) -> ReplicatedJob:
    """Pods have indexes, and their containers are restarted in place."""
    template, pod = job.template, job.template.spec.template
    return job.evolve(
        template=template.evolve(
            spec=template.spec.evolve(
                completion_mode=template.spec.completion_mode or "Indexed",
                template=pod.evolve(
                    spec=pod.spec.evolve(restart_policy=pod.spec.restart_policy or "OnFailure")
                ),
            )
        )
    )


def _with_rule_names(policy: FailurePolicy) -> FailurePolicy:
    rules = (
        rule.evolve(name=rule.name or f"failurePolicyRule{place}") for place, rule in enumerate(policy.rules)
    )
    return policy.evolve(rules=tuple(rules))


def _claims(policy: VolumeClaimPolicy) -> VolumeClaimPolicy:
    if policy.retention_policy:
        return policy
    return policy.evolve(retention_policy=VolumeRetentionPolicy(when_deleted=names.DELETE))
