"""The validation of TrainJobs.

Runtimes are read from the server, not from a cache: a TrainJob is often created right after its runtime.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import UnsetType, is_controlled_by
from quarterdeck.api.k8s import ConfigMap, Pod, PriorityClass
from quarterdeck.client import Client
from quarterdeck.errors import ErrorCause, NotFound, QuarterdeckError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import lookup, names
from quarterdeck.operators.trainer.logic.framework import Framework
from quarterdeck.operators.trainer.logic.info import Info, spec_of
from quarterdeck.operators.trainer.logic.overriderule import have_overrides_changed
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts
from quarterdeck.operators.trainer.logic.plugins.gang import priorities_of
from quarterdeck.operators.trainer.logic.runtimerule import is_deprecated, reference_warning
from quarterdeck.operators.trainer.logic.snapshot import InvalidSnapshot, read_snapshot
from quarterdeck.operators.trainer.types import AnyRuntime, ClusterTrainingRuntime, TrainJob
from quarterdeck.runtime.webhook import AdmissionWebhook, Validator
from quarterdeck.runtime.webhook.admission import Admission, Denied, deny
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

_WORDS: Final = {
    names.TRAINING_RUNTIME: ("spec.runtimeRef", "trainingRuntime"),
    names.CLUSTER_TRAINING_RUNTIME: ("spec.RuntimeRef", "clusterTrainingRuntime"),
}
"""Upstream spells the path differently for the two kinds."""


class TrainJobGuard:
    """Judges TrainJobs, with what the cluster has."""

    def __init__(self, client: Client, framework: Framework, *, keeps_runtimes: bool) -> None:
        self._client: Final = client
        self._framework: Final = framework
        self._keeps_runtimes: Final = keeps_runtimes

    def webhook(self) -> AdmissionWebhook:
        """What to serve."""
        return Validator(
            TrainJob,
            create=self.check_create,
            update=self.check_update,
            name=f"validator.trainjob.{names.GROUP}",
        )

    async def check_create(self, admission: Admission, job: TrainJob) -> None:
        """A new TrainJob; its runtime must be there to stay."""
        runtime = await self._runtime(job)
        if runtime.metadata.is_deleting:
            deny([_going(job, runtime)])
        await self._check(admission, runtime, None, job)

    async def check_update(self, admission: Admission, old: TrainJob, new: TrainJob) -> None:
        """A changed one; while it is being deleted its finalizers must be free to go."""
        if new.metadata.is_deleting:
            return
        runtime = await self._kept_runtime(new) or await self._runtime(new)
        await self._check(admission, runtime, old, new)

    async def _kept_runtime(self, job: TrainJob) -> AnyRuntime | None:
        """The runtime that the TrainJob has its objects from, if it is kept: its own may be gone."""
        if not self._keeps_runtimes:
            return None
        try:
            kept = await self._client.get(
                ConfigMap, names.snapshot_name(job.metadata.name), job.metadata.namespace
            )
            is_own = is_controlled_by(job, kept.metadata)
            return read_snapshot(kept.data, spec_of(job).runtime_ref) if is_own else None
        except (NotFound, InvalidSnapshot):
            return None

    async def _runtime(self, job: TrainJob) -> AnyRuntime:
        if not lookup.is_supported(job):
            text = f"unsupported runtime: {spec_of(job).runtime_ref.key}"
            raise Denied(text, ErrorCause(reason="FieldValueNotSupported", message=text))
        try:
            return await lookup.find_runtime(self._client, job)
        except lookup.RuntimeMissing as error:
            deny([_missing(job, error.kind, str(error.error))])
            raise

    async def _check(
        self, admission: Admission, runtime: AnyRuntime, old: TrainJob | None, new: TrainJob
    ) -> None:
        if isinstance(runtime, ClusterTrainingRuntime) and is_deprecated(runtime):
            # Not by ``warn``, which would cut off the address at the end.
            admission.warnings.append(reference_warning(runtime.metadata.name))
        info = self._framework.info(new, runtime)
        facts = await self._facts(info, old, new)
        deny(self._framework.validate(info, old, new, facts))

    async def _facts(self, info: Info, old: TrainJob | None, new: TrainJob) -> ClusterFacts:
        jobset: JobSet | Exception | None = None
        pods: list[Pod] = []
        if old is not None and have_overrides_changed(spec_of(old), spec_of(new)):
            jobset = await self._jobset(new)
            if isinstance(jobset, JobSet) and not jobset.spec.suspend:
                labels = {jobset_names.JOBSET_NAME: new.metadata.name}
                pods = list(await self._client.list(Pod, namespace=new.metadata.namespace, labels=labels))
        return ClusterFacts(jobset=jobset, pods=pods, missing_priorities=await self._missing_priorities(info))

    async def _jobset(self, job: TrainJob) -> JobSet | Exception | None:
        try:
            return await self._client.get(JobSet, job.metadata.name, job.metadata.namespace)
        except NotFound:
            return None
        except QuarterdeckError as error:
            return error

    async def _missing_priorities(self, info: Info) -> dict[str, str]:
        missing: dict[str, str] = {}
        wanted = priorities_of(info.template) if info.pod_group_policy.volcano else ()
        for priority in {*wanted} - {*names.SYSTEM_PRIORITIES}:
            try:
                await self._client.get(PriorityClass, priority)
            except QuarterdeckError as error:
                missing[priority] = str(error)
        return missing


def _missing(job: TrainJob, kind: str, error: str) -> FieldError:
    path, word = _WORDS[kind]
    detail = f"{error}: specified {word} must be created before the TrainJob is created"
    return fielderror.invalid(path, spec_of(job).runtime_ref, detail)


def _going(job: TrainJob, runtime: AnyRuntime) -> FieldError:
    since = runtime.metadata.deletion_timestamp
    when = "" if isinstance(since, UnsetType) else f" since {since}"
    info = type(runtime).type_info
    text = f'{info.plural}.{info.group} "{runtime.metadata.name}" is being deleted{when}'
    return _missing(job, info.kind, text)
