"""What can be set about the operator: ``operators: {trainer: {...}}`` of the configuration file."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

AUDIT_JITTER: Final = 0.1
"""The part of the time between two audits by which it varies."""


class TrainerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Settings, with the values that are used unless set."""

    reserved_env_audit_seconds: float = 60.0
    """Seconds between two audits of an unfinished TrainJob, give or take a tenth; 0 audits only when
    something changes."""
    reserved_env_repair: Literal["Auto", "Force", "Off"] = "Auto"
    """What is done about reserved variables that somebody changed in a JobSet which the API does not let be
    repaired in place: Auto makes the JobSet anew once nothing of it runs, Force at once, Off only reports."""
    runtime_snapshot: bool = True
    """Keep the runtime as a TrainJob first saw it, and go on with that when the runtime changes or goes."""
    protect_runtimes: bool = False
    """Keep runtimes from being deleted while TrainJobs use them, by a finalizer, as release 2.1 did."""
    progress: bool = False
    """Let trainings report how far they are: their pods get a token and the address of the webhook server."""
    public_namespace: str = "kubeflow-system"
    """Where everybody may read which release this is, as the SDK does; empty publishes nothing."""
    validate_training_runtime_updates: bool = False
    """Check TrainingRuntimes on update as well; upstream checks only ClusterTrainingRuntimes."""
    finalizer_delay_seconds: float = 1.0
    """How long after a change of a TrainJob its runtime is looked at, so that many changes are one look."""
    train_job_workers: int = 4
    runtime_workers: int = 2
