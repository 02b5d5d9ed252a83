"""Which state of a Deployment's template is which: pure.

A revision is a number in an annotation. A ReplicaSet that becomes the newest once more (a rollback) gets the
next number, and remembers those it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quarterdeck.api import LabelSelector, ObjectMeta, owner_reference, value_or
from quarterdeck.api.k8s import Deployment, PodTemplateSpec, ReplicaSet, ReplicaSetSpec
from quarterdeck.cluster.deployment import names
from quarterdeck.cluster.deployment.size import age_order, new_set_size, replicas_of, size_annotations
from quarterdeck.cluster.podset.templatehash import template_hash

_LONGEST_HISTORY: Final = 2000
"""Characters of the annotation with earlier revisions."""
_LONGEST_NAME: Final = 253
_UNLIMITED: Final = 2**31 - 1


def revision_of(replica_set: ReplicaSet) -> int | None:
    """Its revision: zero without one, ``None`` if it is no number."""
    return _integer(replica_set.metadata.annotations.get(names.REVISION, "0"))


def max_revision(sets: Iterable[ReplicaSet]) -> int:
    """The highest revision."""
    return max((revision_of(each) or 0 for each in sets), default=0)


def last_revision(sets: Iterable[ReplicaSet]) -> int:
    """The one before the highest; zero if there is none."""
    highest = second = 0
    for each in sets:
        revision = revision_of(each)
        if revision is None:
            continue
        if revision >= highest:
            highest, second = revision, highest
        elif revision > second:
            second = revision
    return second


def has_template(replica_set: ReplicaSet, template: PodTemplateSpec) -> bool:
    """Whether a ReplicaSet is of this template; the hash among the labels does not matter."""
    return _without_hash(replica_set.spec.template) == _without_hash(template)


def find_newest(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest ReplicaSet that has the template of the Deployment."""
    fitting = (each for each in sets if has_template(each, deployment.spec.template))
    return min(fitting, key=age_order, default=None)


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    metadata = template.metadata
    if names.TEMPLATE_HASH not in metadata.labels:
        return template
    labels = {key: value for key, value in metadata.labels.items() if key != names.TEMPLATE_HASH}
    return template.evolve(metadata=metadata.evolve(labels=labels))


def revision_annotations(
    deployment: Deployment, annotations: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Annotations of the newest ReplicaSet: those of the Deployment, and the revision if that is higher."""
    theirs = deployment.metadata.annotations
    wanted = {**annotations, **{k: v for k, v in theirs.items() if k not in names.NOT_COPIED}}
    known = annotations.get(names.REVISION, "")
    before = _integer(known or "0")
    if before is None or before >= revision:
        return wanted
    wanted[names.REVISION] = str(revision)
    if names.REVISION in annotations:
        history = _longer_history(annotations.get(names.REVISION_HISTORY, ""), known)
        if history is not None:
            wanted[names.REVISION_HISTORY] = history
    return wanted


def _longer_history(history: str, revision: str) -> str | None:
    """The earlier revisions with one more; the first ones are dropped where it becomes too long."""
    if not history.split(",")[0]:
        return revision
    earlier = history.split(",")
    length = len(history) + len(revision) + 1
    while length > _LONGEST_HISTORY and earlier:
        length -= len(earlier.pop(0)) + 1
    return ",".join([*earlier, revision]) if length <= _LONGEST_HISTORY else None


def new_set(deployment: Deployment, old: Sequence[ReplicaSet], revision: int) -> ReplicaSet:
    """A ReplicaSet for the template of the Deployment; its name follows from that."""
    spec = deployment.spec
    count = deployment.status.collision_count
    digest = template_hash(spec.template, count if isinstance(count, int) else None)
    mark = {names.TEMPLATE_HASH: digest}
    labels = {**spec.template.metadata.labels, **mark}
    selector = spec.selector if spec.selector else LabelSelector()
    prefix = deployment.metadata.name[: _LONGEST_NAME - 1 - len(digest)]
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{prefix}-{digest}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations={
                **revision_annotations(deployment, {}, revision),
                **size_annotations(deployment),
            },
            owner_references=(owner_reference(deployment, controller=True),),
        ),
        spec=ReplicaSetSpec(
            replicas=new_set_size(deployment, old, 0),
            min_ready_seconds=spec.min_ready_seconds,
            selector=selector.evolve(match_labels={**selector.match_labels, **mark}),
            template=spec.template.evolve(metadata=spec.template.metadata.evolve(labels=labels)),
        ),
    )


def expired_sets(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old ReplicaSets beyond the history limit that nobody needs any more, oldest revision first."""
    limit = value_or(deployment.spec.revision_history_limit, _UNLIMITED)
    alive = [each for each in old if not each.metadata.is_deleting]
    beyond = len(alive) - limit
    if limit == _UNLIMITED or beyond <= 0:
        return []
    alive.sort(key=lambda each: (revision_of(each) or 0, age_order(each)))
    return [each for each in alive[:beyond] if _is_done(each)]


def _is_done(replica_set: ReplicaSet) -> bool:
    status = replica_set.status
    seen = value_or(status.observed_generation, 0)
    return (
        value_or(status.replicas, 0) == 0
        and replicas_of(replica_set) == 0
        and (replica_set.metadata.generation or 0) <= seen
    )


def rollback_target(deployment: Deployment) -> int | None:
    """The revision that the Deployment is asked to go back to (zero: the last one), by the old annotation."""
    return _integer(deployment.metadata.annotations.get(names.ROLLBACK_TO, ""))


def rolled_back(deployment: Deployment, replica_set: ReplicaSet) -> Deployment:
    """The Deployment with template and annotations of an earlier ReplicaSet."""
    kept = {k: v for k, v in deployment.metadata.annotations.items() if k in names.NOT_COPIED}
    taken = {k: v for k, v in replica_set.metadata.annotations.items() if k not in names.NOT_COPIED}
    return deployment.evolve(
        metadata=deployment.metadata.evolve(annotations={**kept, **taken}),
        spec=deployment.spec.evolve(template=_without_hash(replica_set.spec.template)),
    )


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() else None
