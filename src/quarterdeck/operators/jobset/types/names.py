"""Names that JobSet fixes: its group, labels, conditions, reasons."""

from __future__ import annotations

from typing import Final

GROUP: Final = "jobset.x-k8s.io"
VERSION: Final = "v1alpha2"

CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
"""The value of ``spec.managedBy`` that means the built-in controller."""

# Labels and, with the same values, annotations of child Jobs and their pods.
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICATED_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
GLOBAL_REPLICAS: Final = "jobset.sigs.k8s.io/global-replicas"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOB_GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
GROUP_NAME: Final = "jobset.sigs.k8s.io/group-name"
GROUP_REPLICAS: Final = "jobset.sigs.k8s.io/group-replicas"
JOB_GROUP_INDEX: Final = "jobset.sigs.k8s.io/job-group-index"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
PRIORITY: Final = "jobset.sigs.k8s.io/priority"
"""Label of pods: the priority they are placed with."""
COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"

EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or a job template: one Job per value of this node label."""
NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation: place exclusively through node selectors instead of pod affinity; any value."""
NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
"""Node label that the node selector strategy looks for: ``<namespace>_<job>``."""
NO_SCHEDULE_TAINT: Final = "alpha.jobset.sigs.k8s.io/no-schedule"

# Values of closed sets.
ALL: Final = "All"
ANY: Final = "Any"
ANY_ORDER: Final = "AnyOrder"
IN_ORDER: Final = "InOrder"
READY: Final = "Ready"
COMPLETE: Final = "Complete"
RECREATE: Final = "Recreate"
BLOCKING_RECREATE: Final = "BlockingRecreate"
IN_PLACE_RESTART: Final = "InPlaceRestart"
FAIL_JOBSET: Final = "FailJobSet"
RESTART_JOBSET: Final = "RestartJobSet"
RESTART_JOBSET_IGNORING_MAX: Final = "RestartJobSetAndIgnoreMaxRestarts"
RESTART_JOB: Final = "RestartJob"
RESTART_JOB_IGNORING_MAX: Final = "RestartJobAndIgnoreMaxRestarts"
DELETE: Final = "Delete"
RETAIN: Final = "Retain"

# Conditions; the first two are also the values of ``status.terminalState``.
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
RESTARTING: Final = "RestartingJobSet"
STARTUP_IN_PROGRESS: Final = "StartupPolicyInProgress"
STARTUP_COMPLETED: Final = "StartupPolicyCompleted"
NAME_TAKEN: Final = "NameTaken"
"""Condition, and reason of the event: what a child would be called belongs to somebody else."""
