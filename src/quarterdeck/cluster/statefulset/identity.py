"""Who a pod of a StatefulSet is: its name, its labels, its claims. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from quarterdeck.api import LabelSelector, ObjectMeta, value_or
from quarterdeck.api.k8s import PersistentVolumeClaim, Pod, PodTemplateSpec, StatefulSet, Volume
from quarterdeck.api.k8s.volume import PersistentVolumeClaimVolumeSource
from quarterdeck.cluster.podset.podwriter import pod_of
from quarterdeck.cluster.podset.revision import REVISION_LABEL

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)$", re.DOTALL)
_LARGEST: Final = 2**31 - 1


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """The StatefulSet that a pod is named after, and its number there; minus one if it has none."""
    match = _NAME.match(name)
    if match is None:
        return "", -1
    ordinal = int(match.group(2))
    return match.group(1), ordinal if ordinal <= _LARGEST else -1


def ordinal_of(pod: Pod) -> int:
    """The number of a pod."""
    return parent_and_ordinal(pod.metadata.name)[1]


def start_of(stateful_set: StatefulSet) -> int:
    """The first number."""
    ordinals = stateful_set.spec.ordinals
    return value_or(ordinals.start, 0) if ordinals else 0


def claim_name(stateful_set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    """The name of a claim of a pod."""
    return f"{template.metadata.name}-{stateful_set.metadata.name}-{ordinal}"


def claims_of(stateful_set: StatefulSet, ordinal: int) -> dict[str, PersistentVolumeClaim]:
    """The claims of a pod, by the name of the volume."""
    selector = stateful_set.spec.selector or LabelSelector()
    return {
        template.metadata.name: template.evolve(
            metadata=template.metadata.evolve(
                name=claim_name(stateful_set, template, ordinal),
                namespace=stateful_set.metadata.namespace,
                labels={**template.metadata.labels, **selector.match_labels},
            )
        )
        for template in stateful_set.spec.volume_claim_templates
    }


def has_identity(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod says who it is."""
    name = pod.metadata.name
    parent, ordinal = parent_and_ordinal(name)
    return (
        ordinal >= 0
        and parent == stateful_set.metadata.name
        and name == f"{parent}-{ordinal}"
        and pod.metadata.labels.get(POD_NAME) == name
    )


def with_identity(stateful_set: StatefulSet, pod: Pod, ordinal: int) -> Pod:
    """A pod that says who it is."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    labels = {**pod.metadata.labels, POD_NAME: name, POD_INDEX: str(ordinal)}
    metadata = pod.metadata.evolve(name=name, namespace=stateful_set.metadata.namespace, labels=labels)
    return pod.evolve(metadata=metadata)


def has_storage(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod has its claims as volumes."""
    ordinal = ordinal_of(pod)
    sources = {each.name: each.persistent_volume_claim for each in pod.spec.volumes}
    for template in stateful_set.spec.volume_claim_templates:
        source = sources.get(template.metadata.name)
        if not source or source.claim_name != claim_name(stateful_set, template, ordinal):
            return False
    return ordinal >= 0


def with_storage(stateful_set: StatefulSet, pod: Pod, ordinal: int) -> Pod:
    """A pod with its claims as volumes; they come before the others and replace those of the same name."""
    claims = claims_of(stateful_set, ordinal)
    mounted = [
        Volume(
            name=name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name),
        )
        for name, claim in claims.items()
    ]
    others = [each for each in pod.spec.volumes if each.name not in claims]
    return pod.evolve(spec=pod.spec.evolve(volumes=(*mounted, *others)))


def new_pod(stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int) -> Pod:
    """The pod of a number, of one revision of the template."""
    base = pod_of(stateful_set, template)
    name = f"{stateful_set.metadata.name}-{ordinal}"
    pod = with_identity(stateful_set, base, ordinal)
    labels: Mapping[str, str] = {**pod.metadata.labels, REVISION_LABEL: revision}
    metadata: ObjectMeta = pod.metadata.evolve(labels=labels)
    spec = pod.spec.evolve(hostname=name, subdomain=stateful_set.spec.service_name)
    return with_storage(stateful_set, pod.evolve(metadata=metadata, spec=spec), ordinal)
