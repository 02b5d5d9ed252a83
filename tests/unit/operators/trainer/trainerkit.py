"""Helpers of the trainer tests: runtimes and TrainJobs in one line, and what is rendered of them."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api import Resource, to_dict
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.keys import new_secret
from quarterdeck.operators.trainer.logic.info import Info
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts, Component, Present, Rendering
from quarterdeck.operators.trainer.logic.plugins import default_framework
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    ClusterTrainingRuntime,
    MLPolicy,
    TrainingRuntime,
    TrainJob,
)

Json = dict[str, Any]

FRAMEWORK = default_framework()
RANK = {"fieldRef": {"fieldPath": names.RANK_FIELD}}


def replicated(name: str = "node", *, ancestor: str = "", container: str = "", **parts: Any) -> Json:
    """A replicated job; ``parts``: resources, env, command, ports … of its container, or ``pod``, ``job``."""
    pod = parts.pop("pod", {})
    job = parts.pop("job", {})
    more = parts.pop("more", {})
    made: Json = {
        "name": container or ("node" if name in ("node", "launcher") else name),
        "image": "x",
        **parts,
    }
    template: Json = {"spec": {**job, "template": {"spec": {"containers": [made], **pod}}}}
    if ancestor:
        template["metadata"] = {"labels": {names.ANCESTOR_LABEL: ancestor}}
    return {"name": name, "template": template, **more}


def trainer(**parts: Any) -> Json:
    return replicated(ancestor=names.TRAINER, **parts)


def initializer(step: str = names.DATASET_INITIALIZER, **parts: Any) -> Json:
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    return replicated(step, ancestor=step, **{"volumeMounts": mounts, **parts})


def runtime(*jobs: Json, name: str = "test", policy: Json | None = None, **more: Any) -> TrainingRuntime:
    """A runtime; ``more``: ``gang``, ``metadata`` (of the template), or parts of the JobSetSpec."""
    gang, metadata = more.pop("gang", None), more.pop("metadata", None)
    template: Json = {"spec": {"replicatedJobs": list(jobs) or [trainer()], **more}}
    if metadata:
        template["metadata"] = metadata
    spec: Json = {"template": template}
    if policy is not None:
        spec["mlPolicy"] = policy
    if gang is not None:
        spec["podGroupPolicy"] = gang
    return TrainingRuntime.from_dict(
        {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingRuntime",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
    )


def cluster_runtime(source: TrainingRuntime, name: str, **labels: str) -> ClusterTrainingRuntime:
    return ClusterTrainingRuntime.from_dict(
        {
            "apiVersion": names.API_VERSION,
            "kind": "ClusterTrainingRuntime",
            "metadata": {
                "name": name,
                "labels": {key.replace("_", "/"): value for key, value in labels.items()},
            },
            "spec": to_dict(source.spec),
        }
    )


def train_job(**spec: Any) -> TrainJob:
    """A stored TrainJob; ``runtime`` names its runtime, ``status`` is its status."""
    ref = {"apiGroup": names.GROUP, "kind": "TrainingRuntime", "name": spec.pop("runtime", "test")}
    status = spec.pop("status", None)
    document: Json = {
        "apiVersion": names.API_VERSION,
        "kind": "TrainJob",
        "metadata": {
            "name": "job",
            "namespace": "default",
            "uid": "uid-1",
            "creationTimestamp": "2030-01-01T00:00:00Z",
        },
        "spec": {"runtimeRef": ref, **spec},
    }
    return TrainJob.from_dict({**document, "status": status} if status else document)


def render(job: TrainJob, made_of: AnyRuntime, present: Present | None = None) -> dict[str, Json]:
    """The rendered objects as documents, by kind."""
    return {each.obj.kind: to_dict(each.obj) for each in components(job, made_of, present)}


def components(job: TrainJob, made_of: AnyRuntime, present: Present | None = None) -> list[Component]:
    return list(rendering(job, made_of, present).components)


def rendering(job: TrainJob, made_of: AnyRuntime, present: Present | None = None) -> Rendering:
    present = present if present is not None else Present()
    if present.secret is None:
        policy = (made_of.spec.ml_policy if made_of.spec else None) or MLPolicy()
        present = msgspec.structs.replace(present, new_secret=new_secret(policy, job))
    return FRAMEWORK.render(job, made_of, present)


def rendered_jobset(job: TrainJob, made_of: AnyRuntime, present: Present | None = None) -> JobSet:
    return JobSet.from_dict(render(job, made_of, present)["JobSet"])


def job_of(document: Json, name: str = "node") -> Json:
    """A replicated job of a rendered JobSet."""
    found: Json = next(each for each in document["spec"]["replicatedJobs"] if each["name"] == name)
    return found


def pod_of(document: Json, name: str = "node") -> Json:
    spec: Json = job_of(document, name)["template"]["spec"]["template"]["spec"]
    return spec


def container_of(document: Json, job: str = "node", name: str = "node") -> Json:
    found: Json = next(each for each in pod_of(document, job)["containers"] if each["name"] == name)
    return found


def env_of(document: Json, job: str = "node", name: str = "node") -> dict[str, Any]:
    """Variables by name: the value, or what it comes from."""
    entries = container_of(document, job, name).get("env") or []
    return {entry["name"]: entry.get("valueFrom", entry.get("value", "")) for entry in entries}


def info_of(job: TrainJob, made_of: AnyRuntime) -> Info:
    return FRAMEWORK.info(job, made_of)


def violations(
    new: TrainJob, made_of: AnyRuntime, old: TrainJob | None = None, facts: ClusterFacts | None = None
) -> list[str]:
    """What is wrong with a TrainJob, as text."""
    known = facts if facts is not None else ClusterFacts()
    return [str(each) for each in FRAMEWORK.validate(info_of(new, made_of), old, new, known)]


def owned(obj: Resource, uid: str = "uid-1") -> Json:
    """The document of an object with its controller's uid replaced."""
    document: Json = to_dict(obj)
    document["metadata"]["ownerReferences"][0]["uid"] = uid
    return document
