"""JobSet, the kind: types that the controller and those who write JobSets share."""

from quarterdeck.operators.jobset.types.jobset import (
    Coordinator,
    DependsOn,
    FailurePolicy,
    FailurePolicyRule,
    JobSet,
    JobSetSpec,
    JobSetStatus,
    Network,
    ReplicatedJob,
    ReplicatedJobStatus,
    StartupPolicy,
    SuccessPolicy,
    VolumeClaimPolicy,
    VolumeClaimTemplate,
    VolumeRetentionPolicy,
    definition,
)

__all__ = [
    "Coordinator",
    "DependsOn",
    "FailurePolicy",
    "FailurePolicyRule",
    "JobSet",
    "JobSetSpec",
    "JobSetStatus",
    "Network",
    "ReplicatedJob",
    "ReplicatedJobStatus",
    "StartupPolicy",
    "SuccessPolicy",
    "VolumeClaimPolicy",
    "VolumeClaimTemplate",
    "VolumeRetentionPolicy",
    "definition",
]
