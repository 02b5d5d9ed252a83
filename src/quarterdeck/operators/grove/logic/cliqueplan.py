"""The PodCliques and PodCliqueScalingGroups that a set should have."""

from __future__ import annotations

from collections.abc import Container, Mapping

from quarterdeck.api import ObjectMeta, set_controller_reference
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    CliqueTemplate,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    ScalingGroupConfig,
)

from . import naming
from .environment import group_variables, with_variables
from .label import component_labels, set_index_of
from .membership import clique_named, group_named, standalone_cliques
from .mnnvl import with_compute_domain
from .startorder import parents_of


def plan_standalone_cliques(pcs: PodCliqueSet, hashes: Mapping[str, str]) -> list[PodClique]:
    """The PodCliques of all replicas that are in no group."""
    name = pcs.metadata.name
    cliques = standalone_cliques(pcs.spec.template)
    return [
        _clique(
            pcs,
            clique,
            name=naming.standalone_clique(name, replica, clique.name),
            replica=replica,
            labels={
                names.PODGANG: naming.base_gang(name, replica),
                names.TEMPLATE_HASH: hashes[clique.name],
            },
        )
        for replica in range(pcs.spec.replicas)
        for clique in cliques
    ]


def plan_scaling_groups(pcs: PodCliqueSet) -> list[PodCliqueScalingGroup]:
    """The PodCliqueScalingGroups of all replicas, as they are made; later their replicas are their own."""
    made: list[PodCliqueScalingGroup] = []
    for replica in range(pcs.spec.replicas):
        for group in pcs.spec.template.pod_clique_scaling_groups:
            name = naming.scaling_group(pcs.metadata.name, replica, group.name)
            labels = component_labels(pcs.metadata.name, names.SCALING_GROUP_COMPONENT, name)
            metadata = ObjectMeta(
                name=name,
                namespace=pcs.metadata.namespace,
                labels={**labels, names.SET_INDEX: str(replica)},
                annotations=_group_annotations(pcs, group),
                finalizers=(names.GROUP_FINALIZER,),
            )
            spec = PodCliqueScalingGroupSpec(
                replicas=group.replicas, min_available=group.min_available, clique_names=group.clique_names
            )
            made.append(PodCliqueScalingGroup(metadata=set_controller_reference(pcs, metadata), spec=spec))
    return made


def _group_annotations(pcs: PodCliqueSet, group: ScalingGroupConfig) -> dict[str, str]:
    """Those of the template, and the group of MNNVL that the set names."""
    inherited = {key: value for key, value in pcs.metadata.annotations.items() if key == names.MNNVL_GROUP}
    return {**inherited, **group.annotations}


def group_config_of(pcs: PodCliqueSet, pcsg: PodCliqueScalingGroup) -> ScalingGroupConfig | None:
    """The group of the template that an object was made for."""
    prefix = naming.scaling_group(pcs.metadata.name, set_index_of(pcsg.metadata.labels), "")
    name = pcsg.metadata.name
    return group_named(pcs.spec.template, name.removeprefix(prefix)) if name.startswith(prefix) else None


def plan_group_cliques(
    pcs: PodCliqueSet, pcsg: PodCliqueScalingGroup, hashes: Mapping[str, str], known: Container[str] = ()
) -> list[PodClique]:
    """The PodCliques of all replicas of a group, without those whose names are known."""
    template, replica = pcs.spec.template, set_index_of(pcsg.metadata.labels)
    cliques = [
        clique
        for clique in (clique_named(template, name) for name in pcsg.spec.clique_names)
        if clique is not None
    ]
    variables = group_variables(sum(clique.spec.replicas for clique in cliques))
    made: list[PodClique] = []
    for index in range(pcsg.spec.replicas):
        for clique in cliques:
            name = naming.group_clique(pcsg.metadata.name, index, clique.name)
            if name in known:
                continue
            spec = clique.spec.evolve(pod_spec=with_variables(clique.spec.pod_spec, variables))
            made.append(
                _clique(
                    pcs,
                    clique.evolve(spec=spec),
                    name=name,
                    replica=replica,
                    owner=pcsg,
                    group_index=index,
                    labels={
                        **_gang_labels(pcs, pcsg, replica, index),
                        names.TEMPLATE_HASH: hashes[clique.name],
                    },
                )
            )
    return made


def _gang_labels(pcs: PodCliqueSet, pcsg: PodCliqueScalingGroup, replica: int, index: int) -> dict[str, str]:
    base, least = naming.base_gang(pcs.metadata.name, replica), pcsg.spec.min_available
    labels = {
        names.SCALING_GROUP: pcsg.metadata.name,
        names.SCALING_GROUP_INDEX: str(index),
        names.PODGANG: base,
    }
    if index >= least:
        labels[names.PODGANG] = naming.scaled_gang(pcsg.metadata.name, index, least)
        labels[names.BASE_PODGANG] = base
    return labels


def _clique(
    pcs: PodCliqueSet,
    clique: CliqueTemplate,
    *,
    name: str,
    replica: int,
    labels: Mapping[str, str],
    owner: PodCliqueScalingGroup | None = None,
    group_index: int = -1,
) -> PodClique:
    component = names.SET_CLIQUE_COMPONENT if owner is None else names.GROUP_CLIQUE_COMPONENT
    metadata = ObjectMeta(
        name=name,
        namespace=pcs.metadata.namespace,
        labels={
            **clique.labels,
            **component_labels(pcs.metadata.name, component, name),
            names.SET_INDEX: str(replica),
            **labels,
        },
        annotations={key: value for key, value in clique.annotations.items() if key != names.TOPOLOGY_NAME},
        finalizers=(names.CLIQUE_FINALIZER,),
    )
    parents = parents_of(pcs, clique.name, replica=replica, group_index=group_index)
    return PodClique(
        metadata=set_controller_reference(owner or pcs, metadata),
        spec=clique.spec.evolve(
            starts_after=tuple(parent.name for parent in parents),
            pod_spec=with_compute_domain(clique.spec.pod_spec, pcs, clique, replica),
        ),
    )
