"""Pods made from the template of a Job."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta, OwnerReference, owner_reference
from quarterdeck.api.k8s import Container, EnvVar, Job, Pod, PodSpec
from quarterdeck.api.k8s.pod import EnvVarSource
from quarterdeck.api.k8s.reference import ObjectFieldSelector
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.decision import is_indexed
from quarterdeck.cluster.job.perindex import failure_annotations, has_limit_per_index
from quarterdeck.cluster.job.podstate import PodState

_LONGEST_PREFIX: Final = 58
"""Characters of a generated name before the five random ones."""
_INDEX: Final = EnvVar(
    name=names.INDEX_VARIABLE,
    value_from=EnvVarSource(
        field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{names.COMPLETION_INDEX}']")
    ),
)


class PodMaker:
    """Makes the pods of one Job; what they share is prepared once."""

    def __init__(self, job: Job) -> None:
        template = job.spec.template
        finalizers = template.metadata.finalizers
        self._job: Final = job
        self._labels: Final = template.metadata.labels
        self._annotations: Final = template.metadata.annotations
        self._finalizers: Final = (
            finalizers if names.TRACKING in finalizers else (*finalizers, names.TRACKING)
        )
        self._owner: Final[tuple[OwnerReference, ...]] = (owner_reference(job, controller=True),)
        self._spec: Final = _with_index_variable(template.spec) if is_indexed(job) else template.spec

    def make(self, index: int | None = None, predecessor: PodState | None = None) -> Pod:
        """A pod, for an index if the Job has some; ``predecessor`` is the failed pod it replaces."""
        job = self._job
        if index is None:
            return Pod(metadata=self._metadata(f"{job.metadata.name}-"), spec=self._spec)
        marks = {names.COMPLETION_INDEX: str(index)}
        counts = failure_annotations(job, predecessor) if has_limit_per_index(job) else {}
        metadata = self._metadata(_prefix(job.metadata.name, index)).evolve(
            labels={**self._labels, **marks}, annotations={**self._annotations, **marks, **counts}
        )
        return Pod(metadata=metadata, spec=self._spec.evolve(hostname=f"{job.metadata.name}-{index}"))

    def _metadata(self, prefix: str) -> ObjectMeta:
        return ObjectMeta(
            generate_name=prefix,
            namespace=self._job.metadata.namespace,
            labels=self._labels,
            annotations=self._annotations,
            finalizers=self._finalizers,
            owner_references=self._owner,
        )


def _prefix(name: str, index: int) -> str:
    """The index must survive when a long name is cut."""
    suffix = f"-{index}-"
    return f"{name[: _LONGEST_PREFIX - len(suffix)]}{suffix}"


def _with_index_variable(spec: PodSpec) -> PodSpec:
    return spec.evolve(
        init_containers=tuple(map(_told_its_index, spec.init_containers)),
        containers=tuple(map(_told_its_index, spec.containers)),
    )


def _told_its_index(container: Container) -> Container:
    if any(each.name == names.INDEX_VARIABLE for each in container.env):
        return container
    return container.evolve(env=(*container.env, _INDEX))
