"""Telling users what happens to their TrainJobs, and counting it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from quarterdeck.api.k8s import Secret
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.metrics import TrainerMetrics
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.contract import Recorder
from quarterdeck.wire.gostyle import plain

_MAX_ERROR: Final = 950
_KEY_REPLACED: Final = "Secret was replaced while the TrainJob is running; delete and recreate the TrainJob"
DriftResult = Literal["restored", "recreated", "pending", "off"]


class Reporter:
    """Events about TrainJobs; repeated ones become a series."""

    def __init__(self, recorder: Recorder, metrics: TrainerMetrics) -> None:
        self._recorder: Final = recorder
        self.metrics: Final = metrics

    def _warn(self, job: TrainJob, reason: str, note: str) -> None:
        self._recorder.event(job, "Warning", reason, "Reconcile", note)

    def failed(self, job: TrainJob, error: Exception) -> None:
        """The objects of a TrainJob could not be written."""
        text = str(error)
        if len(text) > _MAX_ERROR:
            text = f"{text[:_MAX_ERROR]} ..."
        self._warn(job, names.CREATION_FAILED, f"TrainJob resources reconciliation failed: {text}")

    def status_failed(self, job: TrainJob, error: Exception) -> None:
        """The status could not be written: without an event nobody would know."""
        self._warn(job, names.STATUS_WRITE_FAILED, f"TrainJob status could not be written: {error}")

    def ignored(self, job: TrainJob, variables: Sequence[str]) -> None:
        """Reserved variables of the TrainJob were left out."""
        self.metrics.ignored.labelled().inc()
        self._warn(job, names.RESERVED_ENV_IGNORED, f"reserved envs ignored: {plain(variables)}")

    def drift(self, job: TrainJob, variables: Sequence[str], result: DriftResult) -> None:
        """Reserved variables of the JobSet were changed by somebody."""
        self.metrics.drift.labelled(result).inc()
        listed = plain(variables)
        if result == "off":
            note = f"reserved envs differ: {listed} (repair is off)"
        elif result == "pending":
            note = f"reserved envs restored: {listed} (pending: JobSet is active)"
        else:
            note = f"reserved envs restored: {listed}"
        self._warn(job, names.RESERVED_ENV_DRIFT, note)

    def key_replaced(self, job: TrainJob, secret: Secret) -> None:
        """Pods that run have another key than those to come."""
        self.metrics.keys_replaced.labelled().inc()
        is_ssh = secret.type == names.SSH_SECRET_TYPE
        what = "SSH auth" if is_ssh else "Flux curve"
        reason = names.SSH_SECRET_REPLACED if is_ssh else names.CURVE_SECRET_REPLACED
        self._warn(job, reason, f"{what} {_KEY_REPLACED}")

    def recreated(self, job: TrainJob, cause: Exception) -> None:
        """The JobSet is recreated."""
        self.metrics.recreated.labelled().inc()
        note = f"JobSet is recreated because it could not be changed: {str(cause)[:_MAX_ERROR]}"
        self._recorder.event(job, "Normal", names.JOBSET_RECREATED, "Reconcile", note)
