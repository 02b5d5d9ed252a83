"""What overrides and patches may say, and when they may change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from quarterdeck.api import to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import Pod
from quarterdeck.api.label import check_dns1123_subdomain
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import TrainJob, TrainJobSpec
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

from .info import Info, spec_of
from .plugin import ClusterFacts

_OVERRIDES: Final = "spec.podTemplateOverrides"
_PATCHES: Final = "spec.runtimePatches"
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_ENV: Final = "must not have envs for the dataset-initializer, model-initializer, node containers"
_FIXED: Final = (
    "volumes",
    "initContainers",
    "containers",
    "imagePullSecrets",
    "securityContext",
)
"""Fields of a patch that stay as they are once they are set; for scalars the schema has the same rule."""


def validate_overrides(
    info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
) -> list[FieldError]:
    """All that is wrong with overrides and patches."""
    spec = spec_of(new)
    return [
        *_validate_content(info, spec),
        *_validate_patches(info, spec),
        *(_validate_change(spec_of(old), spec, facts) if old is not None else ()),
    ]


def _validate_content(info: Info, spec: TrainJobSpec) -> Iterator[FieldError]:
    for override in spec.pod_template_overrides:
        pod = to_dict(override.spec) if override.spec else {}
        for target in override.target_jobs:
            if target.name not in info.containers:
                detail = "must not have targetJob that doesn't exist in the runtime job template"
                yield fielderror.invalid(_OVERRIDES, spec.pod_template_overrides, detail)
            for detail in _container_problems(info, target.name, pod):
                yield fielderror.invalid(_OVERRIDES, spec.pod_template_overrides, detail)


def _validate_patches(info: Info, spec: TrainJobSpec) -> Iterator[FieldError]:
    for patch in spec.runtime_patches:
        yield from _validate_manager(patch.manager)
        for job in _patched_jobs(to_dict(patch)):
            name = job.get("name", "")
            if name not in info.containers:
                detail = "must not have replicated job that doesn't exist in the runtime job template"
                yield fielderror.invalid(_PATCHES, spec.runtime_patches, detail)
            for detail in _container_problems(info, name, _patched_pod(job)):
                yield fielderror.invalid(_PATCHES, spec.runtime_patches, detail)


def _validate_manager(manager: str) -> Iterator[FieldError]:
    """A manager is a domain with a path; the definition only looks at its length."""
    field = f"{_PATCHES}.manager"
    domain, _, path = manager.partition("/")
    if not manager:
        yield fielderror.required(field)
    elif not domain or not path:
        yield fielderror.invalid(field, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for why in check_dns1123_subdomain(domain):
            yield fielderror.invalid(field, domain, why)
        if not _PATH.fullmatch(path):
            detail = f"Invalid path (regex used for validation is '{_PATH.pattern}')"
            yield fielderror.invalid(field, path, detail)


def _container_problems(info: Info, job: str, pod: Json) -> Iterator[str]:
    known = info.containers.get(job, frozenset())
    for container in pod.get("initContainers") or ():
        if container["name"] not in known:
            yield f"must not have initContainer that doesn't exist in the runtime job {job}"
    for container in pod.get("containers") or ():
        if container["name"] not in known:
            yield f"must not have container that doesn't exist in the runtime job {job}"
        elif container["name"] in names.RESERVED_CONTAINERS and container.get("env"):
            yield _ENV


def _patched_jobs(patch: Json) -> Sequence[Json]:
    template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
    jobs: Sequence[Json] = (template.get("spec") or {}).get("replicatedJobs") or ()
    return jobs


def _patched_pod(job: Json) -> Json:
    template = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
    pod: Json = template.get("spec") or {}
    return pod


def have_overrides_changed(old: TrainJobSpec, new: TrainJobSpec) -> bool:
    """Whether an update touches overrides or patches; then the JobSet has to be looked at."""
    return old.pod_template_overrides != new.pod_template_overrides or _have_patches_changed(old, new)


def _have_patches_changed(old: TrainJobSpec, new: TrainJobSpec) -> bool:
    return [_timeless(each) for each in to_dict(old.runtime_patches)] != [
        _timeless(each) for each in to_dict(new.runtime_patches)
    ]


def _timeless(patch: Json) -> Json:
    return {key: value for key, value in patch.items() if key != "time"}


def _validate_change(old: TrainJobSpec, new: TrainJobSpec, facts: ClusterFacts) -> Iterator[FieldError]:
    if old.pod_template_overrides != new.pod_template_overrides:
        if new.suspend:
            yield from _refuse_active(
                _OVERRIDES, "PodTemplateOverrides cannot be modified when JobSet's", facts
            )
        else:
            detail = "PodTemplateOverrides can only be modified when the TrainJob is suspended"
            yield fielderror.forbidden(_OVERRIDES, detail)
    if _have_patches_changed(old, new):
        if new.suspend or old.suspend:
            yield from _refuse_active(_PATCHES, "RuntimePatches cannot be modified when the JobSet's", facts)
        else:
            when = "suspended before or after the update"
            detail = f"RuntimePatches can only be modified when the TrainJob is {when}"
            yield fielderror.forbidden(_PATCHES, detail)
        yield from _refuse_fixed(old, new)


def _refuse_active(path: str, what: str, facts: ClusterFacts) -> Iterator[FieldError]:
    if isinstance(facts.jobset, Exception):
        yield fielderror.internal(path, str(facts.jobset))
    elif facts.jobset is not None:
        for name in active_jobs(facts.jobset, facts.pods):
            yield fielderror.forbidden(path, f"{what} ReplicatedJob {name} is still active")


def active_jobs(jobset: JobSet, pods: Sequence[Pod] = ()) -> list[str]:
    """Replicated jobs of which something runs.

    The status may lag behind: as long as a JobSet is not asked to suspend, its pods count as well.
    """
    active = [each.name for each in jobset.status.replicated_jobs_status if each.active > 0]
    if not jobset.spec.suspend:
        for pod in pods:
            name = pod.metadata.labels.get(jobset_names.REPLICATED_JOB_NAME, "")
            is_live = pod.status.phase in ("Pending", "Running", "") and not pod.metadata.is_deleting
            if is_live and name not in active:
                active.append(name)
    return active


def _refuse_fixed(old: TrainJobSpec, new: TrainJobSpec) -> Iterator[FieldError]:
    """Parts of patches that only decide about pods yet to be made must not change afterwards."""
    before = {
        (patch["manager"], job.get("name", "")): _patched_pod(job)
        for patch in to_dict(old.runtime_patches)
        for job in _patched_jobs(patch)
    }
    for place, patch in enumerate(to_dict(new.runtime_patches)):
        for index, job in enumerate(_patched_jobs(patch)):
            known = before.get((patch["manager"], job.get("name", "")), {})
            pod = _patched_pod(job)
            for field in _FIXED:
                if field in known and field in pod and known[field] != pod[field]:
                    path = (
                        f"{_PATCHES}[{place}].trainingRuntimeSpec.template.spec.replicatedJobs[{index}]"
                        f".template.spec.template.spec.{field}"
                    )
                    yield fielderror.invalid(path, pod[field], "field is immutable")
