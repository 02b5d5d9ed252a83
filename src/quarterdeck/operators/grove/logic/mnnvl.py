"""Multi-node NVLink: the ComputeDomains of a set, and the claims by which pods take part in them.

Cliques that name the same group share one ComputeDomain per replica of the set. The annotation of a clique
counts more than that of its scaling group, which counts more than the set's; ``none`` opts out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import GroupVersionKind, owner_reference, to_dict
from quarterdeck.api.k8s import Container, PodSpec
from quarterdeck.api.k8s.pod import PodResourceClaim, ResourceClaim
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import CliqueTemplate, PodCliqueSet

from .label import component_labels
from .membership import group_of

COMPUTE_DOMAIN: Final = GroupVersionKind("resource.nvidia.com", "v1beta1", "ComputeDomain")
_CLAIM: Final = "mnnvl-claim"
_GPU: Final = "nvidia.com/gpu"


def domain_groups(pcs: PodCliqueSet) -> list[str]:
    """The groups of cliques with GPUs, each once."""
    cliques = pcs.spec.template.cliques
    found = (_group_of(pcs, clique) for clique in cliques if _wants_gpu(clique.spec.pod_spec))
    return list(dict.fromkeys(group for group in found if group))


def _group_of(pcs: PodCliqueSet, clique: CliqueTemplate) -> str:
    group = group_of(pcs.spec.template, clique.name)
    layers: tuple[Mapping[str, str], ...] = (
        clique.annotations,
        group.annotations if group is not None else {},
        pcs.metadata.annotations,
    )
    value = next((layer[names.MNNVL_GROUP] for layer in layers if names.MNNVL_GROUP in layer), "")
    return "" if value == names.NO_MNNVL_GROUP else value


def _domain_name(pcs: PodCliqueSet, replica: int, group: str) -> str:
    return f"{pcs.metadata.name}-{replica}-{group}"


def plan_compute_domains(pcs: PodCliqueSet) -> dict[str, dict[str, Any]]:
    """The ComputeDomains of all replicas, by name. Each makes the template that claims are made from."""
    made: dict[str, dict[str, Any]] = {}
    for replica in range(pcs.spec.replicas):
        for group in domain_groups(pcs):
            name = _domain_name(pcs, replica, group)
            made[name] = {
                "apiVersion": COMPUTE_DOMAIN.api_version,
                "kind": COMPUTE_DOMAIN.kind,
                "metadata": {
                    "name": name,
                    "namespace": pcs.metadata.namespace,
                    "labels": {
                        **component_labels(pcs.metadata.name, names.COMPUTE_DOMAIN_COMPONENT, name),
                        names.SET_INDEX: str(replica),
                        names.MNNVL_GROUP: group,
                    },
                    "finalizers": [names.COMPUTE_DOMAIN_FINALIZER],
                    "ownerReferences": [to_dict(owner_reference(pcs, controller=True))],
                },
                # without a number of nodes the domain grows and shrinks with its pods
                "spec": {"channel": {"resourceClaimTemplate": {"name": name}}, "numNodes": 0},
            }
    return made


def with_compute_domain(pods: PodSpec, pcs: PodCliqueSet, clique: CliqueTemplate, replica: int) -> PodSpec:
    """The pods of a clique, whose containers with GPUs claim a part of the ComputeDomain of their group."""
    group = _group_of(pcs, clique)
    is_done = any(claim.name == _CLAIM for claim in pods.resource_claims)
    if not group or is_done or not _wants_gpu(pods):
        return pods
    claim = PodResourceClaim(name=_CLAIM, resource_claim_template_name=_domain_name(pcs, replica, group))
    return pods.evolve(
        containers=tuple(map(_claiming, pods.containers)),
        init_containers=tuple(map(_claiming, pods.init_containers)),
        resource_claims=(*pods.resource_claims, claim),
    )


def _claiming(container: Container) -> Container:
    resources = container.resources
    if not _has_gpu(container) or any(claim.name == _CLAIM for claim in resources.claims):
        return container
    claims = (*resources.claims, ResourceClaim(name=_CLAIM))
    return container.evolve(resources=resources.evolve(claims=claims))


def _wants_gpu(pods: PodSpec) -> bool:
    return any(map(_has_gpu, (*pods.containers, *pods.init_containers)))


def _has_gpu(container: Container) -> bool:
    resources = container.resources
    return any(amounts.get(_GPU) for amounts in (resources.limits, resources.requests))
