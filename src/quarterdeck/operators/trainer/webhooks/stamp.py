"""The date of runtime patches: when a manager has last changed its own."""

from __future__ import annotations

from quarterdeck.api import Time
from quarterdeck.client.clock import Clock
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.types import RuntimePatch, TrainJob
from quarterdeck.runtime.loop.clock import time_now
from quarterdeck.runtime.webhook import AdmissionWebhook, Defaulter
from quarterdeck.runtime.webhook.admission import Admission


def stamp_webhook(clock: Clock) -> AdmissionWebhook:
    """What to serve; the server asks only about TrainJobs that have patches."""

    def stamp(admission: Admission, job: TrainJob) -> TrainJob:
        old = admission.read_old(TrainJob) if admission.operation == "UPDATE" else None
        return stamped(job, old, time_now(clock))

    return Defaulter(
        TrainJob,
        stamp,
        name=f"defaulter.trainjob.{names.GROUP}",
        match_conditions={"has-patches": "has(object.spec) && has(object.spec.runtimePatches)"},
    )


def stamped(new: TrainJob, old: TrainJob | None, now: Time) -> TrainJob:
    """A TrainJob whose new and changed patches carry a date; others keep theirs."""
    patches = spec_of(new).runtime_patches
    if not patches or not new.spec:
        return new
    known = {each.manager: each for each in spec_of(old).runtime_patches} if old is not None else {}
    dated = tuple(_dated(patch, known.get(patch.manager), now) for patch in patches)
    return new.evolve(spec=new.spec.evolve(runtime_patches=dated))


def _dated(patch: RuntimePatch, before: RuntimePatch | None, now: Time) -> RuntimePatch:
    """A date that comes with a new patch is kept: it may have been moved from another cluster."""
    if before is None:
        return patch if patch.time else patch.evolve(time=now)
    is_same = before.training_runtime_spec == patch.training_runtime_spec
    return patch.evolve(time=before.time if is_same else now)
