"""Names that Jobs fix."""

from __future__ import annotations

from typing import Final

CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that means this controller."""

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer of pods that are not counted yet."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of pods of Indexed Jobs."""
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"

# Condition types.
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
