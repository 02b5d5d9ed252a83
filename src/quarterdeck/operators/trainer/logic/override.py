"""``podTemplateOverrides`` and ``runtimePatches`` merged into the template of a runtime.

Variables whose names are reserved never get through here: admission refuses them, and what was stored past
it must not win over what the system sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quarterdeck.api import to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import PodTemplateOverride, RuntimePatch, TrainJobSpec

from .strategic import merge_template
from .template import pod_template, replicated_jobs


def merge_overrides(template: Json, spec: TrainJobSpec, *, reserved: Collection[str]) -> None:
    """Merge the overrides, then the patches, into a JobSetSpec; later ones win."""
    jobs = replicated_jobs(template)
    for override in spec.pod_template_overrides:
        targets = {target.name for target in override.target_jobs}
        patch = _patch_of(override)
        _drop_reserved(patch, reserved)
        for job in jobs:
            if job.get("name") in targets:
                job["template"]["spec"]["template"] = merge_template(pod_template(job), patch)
    for runtime_patch in spec.runtime_patches:
        for changed in _jobs_of(runtime_patch):
            job_patch = changed.get("template") or {}
            pod_patch = (job_patch.get("spec") or {}).get("template") or {}
            _drop_reserved(pod_patch, reserved)
            for place, job in enumerate(jobs):
                if job.get("name") == changed.get("name"):
                    jobs[place] = merge_template(job, {"template": job_patch})


def _patch_of(override: PodTemplateOverride) -> Json:
    metadata = override.metadata
    kept = {"labels": dict(metadata.labels), "annotations": dict(metadata.annotations)}
    patch: Json = {"metadata": {key: value for key, value in kept.items() if value}}
    if override.spec:
        patch["spec"] = to_dict(override.spec)
    return {key: value for key, value in patch.items() if value}


def _jobs_of(patch: RuntimePatch) -> list[Json]:
    runtime = patch.training_runtime_spec
    if not runtime or not runtime.template or not runtime.template.spec:
        return []
    return [to_dict(job) for job in runtime.template.spec.replicated_jobs]


def _drop_reserved(patch: Json, reserved: Collection[str]) -> None:
    for container in (patch.get("spec") or {}).get("containers") or ():
        if container.get("name") == names.NODE and "env" in container:
            container["env"] = [entry for entry in container["env"] if entry.get("name") not in reserved]


def override_env(spec: TrainJobSpec) -> Iterator[str]:
    """Names of the variables that overrides and patches set in containers named ``node``."""
    for override in spec.pod_template_overrides:
        for container in override.spec.containers if override.spec else ():
            if container.name == names.NODE:
                yield from (entry.name for entry in container.env)
    for patch in spec.runtime_patches:
        for job in _jobs_of(patch):
            pod = (((job.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
            for container in pod.get("containers") or ():
                if container.get("name") == names.NODE:
                    yield from (entry["name"] for entry in container.get("env") or ())


def patched_metadata(spec: TrainJobSpec) -> tuple[Json, Json]:
    """Labels and annotations that patches give to the JobSet."""
    labels: Json = {}
    annotations: Json = {}
    for patch in spec.runtime_patches:
        template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        if template:
            labels.update(template.metadata.labels)
            annotations.update(template.metadata.annotations)
    return labels, annotations
