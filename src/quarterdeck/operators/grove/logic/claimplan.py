"""Resource claims that pods share: which there are, and which a pod uses.

An entry of ``resourceSharing`` makes one claim for all replicas of its owner, or one for each replica. Owners
are the set, a group, or a PodClique, whose replicas are its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quarterdeck.api import ObjectMeta, UnsetType
from quarterdeck.api.childname import child_name
from quarterdeck.api.k8s import Container, Pod
from quarterdeck.api.k8s.pod import PodResourceClaim
from quarterdeck.api.k8s.pod import ResourceClaim as ClaimUse
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    ClaimTemplate,
    CliqueSharing,
    CliqueTemplate,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetTemplate,
    ScalingGroupConfig,
)

from .cliqueplan import group_config_of
from .label import component_labels, set_index_of
from .membership import clique_name_of, clique_named, group_index_of, group_of

_LABEL_LENGTH = 63


class ClaimPlan(msgspec.Struct, frozen=True):
    """One claim."""

    name: str
    template: str
    """A template of the set, or a ResourceClaimTemplate of the cluster."""
    namespace: str = ""
    """Of the ResourceClaimTemplate, if it is not that of the set."""


def shares_anything(template: PodCliqueSetTemplate) -> bool:
    """Whether a set has claims at all."""
    return bool(
        template.resource_sharing
        or any(group.resource_sharing for group in template.pod_clique_scaling_groups)
        or any(clique.resource_sharing for clique in template.cliques)
    )


def _claims(owner: str, entries: Iterable[CliqueSharing], indices: Iterable[int]) -> list[ClaimPlan]:
    places = list(indices)
    made: list[ClaimPlan] = []
    for entry in entries:
        parts = ["all"] if entry.scope == names.ALL_REPLICAS else [str(index) for index in places]
        made += [ClaimPlan(f"{owner}-{part}-{entry.name}", entry.name, entry.namespace) for part in parts]
    return made


def set_claims(pcs: PodCliqueSet) -> list[ClaimPlan]:
    """The claims of a set itself."""
    return _claims(pcs.metadata.name, pcs.spec.template.resource_sharing, range(pcs.spec.replicas))


def group_claims(pcs: PodCliqueSet, pcsg: PodCliqueScalingGroup) -> list[ClaimPlan]:
    """The claims of a group."""
    config = group_config_of(pcs, pcsg)
    entries = config.resource_sharing if config is not None else ()
    return _claims(pcsg.metadata.name, entries, range(pcsg.spec.replicas))


def clique_claims(pcs: PodCliqueSet, pclq: PodClique, indices: Iterable[int]) -> list[ClaimPlan]:
    """The claims of a PodClique, whose pods have these indices."""
    clique = clique_named(pcs.spec.template, clique_name_of(pclq))
    entries = clique.resource_sharing if clique is not None else ()
    return _claims(pclq.metadata.name, entries, indices)


def used_claims(pcs: PodCliqueSet, pclq: PodClique, index: int) -> list[str]:
    """The names of all claims that the pod of an index uses."""
    template = pcs.spec.template
    clique = clique_named(template, clique_name_of(pclq))
    if clique is None:
        return []
    group = group_of(template, clique.name)
    replica = set_index_of(pclq.metadata.labels)
    of_set = [entry for entry in template.resource_sharing if _applies_in_set(entry.filter, clique, group)]
    plans = _claims(pcs.metadata.name, of_set, [replica])
    if group is not None:
        of_group = [entry for entry in group.resource_sharing if _applies_in_group(entry.filter, clique)]
        owner = pclq.metadata.labels.get(names.SCALING_GROUP, "")
        plans += _claims(owner, of_group, [group_index_of(pclq)])
    plans += _claims(pclq.metadata.name, clique.resource_sharing, [index])
    return [plan.name for plan in plans]


def _applies_in_set(chosen: object, clique: CliqueTemplate, group: ScalingGroupConfig | None) -> bool:
    if isinstance(chosen, UnsetType):
        return True
    cliques: Sequence[str] = getattr(chosen, "child_clique_names", ())
    groups: Sequence[str] = getattr(chosen, "child_scaling_group_names", ())
    return clique.name in cliques or (group is not None and group.name in groups)


def _applies_in_group(chosen: object, clique: CliqueTemplate) -> bool:
    return isinstance(chosen, UnsetType) or clique.name in getattr(chosen, "child_clique_names", ())


def claim_metadata(pcs: PodCliqueSet, plan: ClaimPlan, template: ClaimTemplate | None) -> ObjectMeta:
    """The metadata of a claim, without its owner; ``template`` is that of the set, if it is one."""
    given = template.template_spec.metadata if template is not None else ObjectMeta()
    return ObjectMeta(
        name=plan.name,
        namespace=pcs.metadata.namespace,
        labels={**given.labels, **component_labels(pcs.metadata.name, names.CLAIM_COMPONENT, plan.name)},
        annotations=given.annotations,
    )


def with_claims(pod: Pod, claims: Sequence[str]) -> Pod:
    """A pod all of whose containers use some claims."""
    if not claims:
        return pod
    uses = {claim: child_name(claim, limit=_LABEL_LENGTH) for claim in claims}

    def using(container: Container) -> Container:
        if container.name == names.INIT_CONTAINER:
            return container
        added = (*container.resources.claims, *(ClaimUse(name=name) for name in uses.values()))
        return container.evolve(resources=container.resources.evolve(claims=added))

    spec = pod.spec
    entries = tuple(PodResourceClaim(name=name, resource_claim_name=claim) for claim, name in uses.items())
    return pod.evolve(
        spec=spec.evolve(
            resource_claims=(*spec.resource_claims, *entries),
            containers=tuple(map(using, spec.containers)),
            init_containers=tuple(map(using, spec.init_containers)),
        )
    )
