"""Names of Deployments on the wire."""

from __future__ import annotations

from typing import Final

TEMPLATE_HASH: Final = "pod-template-hash"
"""Label of ReplicaSets and pods: which state of the template they are of."""

# Annotations.
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED: Final = frozenset(
    {LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO}
)
"""Annotations that a Deployment and its ReplicaSets have each for themselves."""

# Conditions.
AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

# Reasons.
SET_UPDATED: Final = "ReplicaSetUpdated"
SET_CREATE_ERROR: Final = "ReplicaSetCreateError"
SET_CREATED: Final = "NewReplicaSetCreated"
SET_FOUND: Final = "FoundNewReplicaSet"
SET_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
ENOUGH: Final = "MinimumReplicasAvailable"
TOO_FEW: Final = "MinimumReplicasUnavailable"
