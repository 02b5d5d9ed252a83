"""A pod of a PodClique, as it is created."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quarterdeck.api import ObjectMeta, set_controller_reference
from quarterdeck.api.k8s import (
    Container,
    ObjectFieldSelector,
    Pod,
    PodSchedulingGate,
    PodSpec,
    SecretVolumeSource,
    Volume,
    VolumeMount,
)
from quarterdeck.api.k8s.volume import DownwardAPIVolumeFile, DownwardAPIVolumeSource
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique

from . import naming
from .environment import pod_variables, with_variables
from .label import managed_labels, set_index_of
from .startorder import Parent

_MODE = 0o644


class PodSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod has to know of the set it is part of."""

    set_name: str
    priority_class: str = ""
    parents: tuple[Parent, ...] = ()
    init_image: str = ""
    """Image of the container that waits for the parents."""


_MEMBERSHIP = (
    names.MANAGED_BY,
    names.PART_OF,
    names.SET_INDEX,
    names.SCALING_GROUP,
    names.SCALING_GROUP_INDEX,
    names.PODGANG,
    names.BASE_PODGANG,
)


def membership_labels(pclq: PodClique) -> dict[str, str]:
    """The labels that say where a pod belongs; they are the same for all pods of a PodClique, for ever."""
    labels = pclq.metadata.labels
    return {
        **{key: labels[key] for key in _MEMBERSHIP if key in labels},
        names.PODCLIQUE: pclq.metadata.name,
    }


def gated_pod(pclq: PodClique, around: PodSurroundings, index: int) -> Pod:
    """The pod of an index as the scheduler backend gets to see it."""
    pods = pclq.spec.pod_spec
    if around.priority_class and not pods.priority_class_name:
        pods = pods.evolve(priority_class_name=around.priority_class)
    metadata = ObjectMeta(
        generate_name=f"{pclq.metadata.name}-",
        namespace=pclq.metadata.namespace,
        labels={
            **pclq.metadata.labels,
            **managed_labels(around.set_name),
            names.PODCLIQUE: pclq.metadata.name,
            names.POD_INDEX: str(index),
        },
        annotations=pclq.metadata.annotations,
    )
    gates = (*pods.scheduling_gates, PodSchedulingGate(name=names.GATE))
    return Pod(metadata=set_controller_reference(pclq, metadata), spec=pods.evolve(scheduling_gates=gates))


def finished_pod(pod: Pod, pclq: PodClique, around: PodSurroundings, index: int) -> Pod:
    """The same with everything that does not concern the scheduler."""
    replica = set_index_of(pclq.metadata.labels)
    variables = pod_variables(around.set_name, replica, pclq.metadata.name, pclq.metadata.namespace)
    spec = with_variables(pod.spec, variables).evolve(
        hostname=naming.hostname(pclq.metadata.name, index),
        subdomain=naming.base_gang(around.set_name, replica),
    )
    if around.parents:
        spec = _waiting(spec, around)
    return pod.evolve(spec=spec)


def _waiting(spec: PodSpec, around: PodSurroundings) -> PodSpec:
    container = Container(
        name=names.INIT_CONTAINER,
        image=around.init_image,
        args=tuple(_arguments(around.parents)),
        volume_mounts=(
            VolumeMount(name=names.TOKEN_VOLUME, mount_path=names.TOKEN_PATH, read_only=True),
            VolumeMount(name=names.POD_INFO_VOLUME, mount_path=names.POD_INFO_PATH, read_only=True),
        ),
    )
    secret = SecretVolumeSource(secret_name=naming.token_secret(around.set_name), default_mode=_MODE)
    info = DownwardAPIVolumeSource(
        items=(
            _info_file("namespace", "metadata.namespace"),
            _info_file("podgangname", f"metadata.labels['{names.PODGANG}']"),
        )
    )
    return spec.evolve(
        init_containers=(*spec.init_containers, container),
        volumes=(
            *spec.volumes,
            Volume(name=names.TOKEN_VOLUME, secret=secret),
            Volume(name=names.POD_INFO_VOLUME, downward_api=info),
        ),
    )


def _arguments(parents: Sequence[Parent]) -> list[str]:
    return [f"--podcliques={parent.name}:{parent.min_available}" for parent in parents]


def _info_file(path: str, field: str) -> DownwardAPIVolumeFile:
    selector = ObjectFieldSelector(api_version="v1", field_path=field)
    return DownwardAPIVolumeFile(path=path, field_ref=selector)
