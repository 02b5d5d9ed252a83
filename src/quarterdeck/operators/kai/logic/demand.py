"""What a pod that waits demands beyond what it says itself: of its volumes, and to start at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.deviceintake import DeviceAccount
from quarterdeck.scheduler.intake import pod_info
from quarterdeck.scheduler.snapshot import PodInfo

from .configmap import missing_config_maps, required_config_maps
from .device import claim_gpus, claim_problem
from .volume import VolumeDemands, claims_of, volume_demands

Document = Mapping[str, Any]


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod, and what it refers to as long as it has no node."""

    info: PodInfo
    claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    is_waiting: bool = False
    """Whether it is ours and has no node."""
    references: tuple[str, ...] = ()
    """What it calls its resource claims."""
    templates: frozenset[str] = frozenset()
    """Those that are made from a template for it alone."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """How to find what pods refer to."""

    claim: Callable[[str, str], Document | None]
    """By namespace and name."""
    volume: Callable[[str], Document | None]
    storage_class: Callable[[str], Document | None]
    volumes: Callable[[], Collection[Document]]
    has_config_map: Callable[[str, str], bool]
    """By namespace and name."""
    resource_claim: Callable[[str, str], Document | None] = lambda namespace, name: None
    """By namespace and name."""
    devices: Callable[[], DeviceAccount] = DeviceAccount
    queue_of: Callable[[str, str], str] = lambda namespace, group: ""
    """The queue of a pod group, by namespace and name."""


def read_pod(document: Document, scheduler: str) -> WaitingPod:
    """A pod; what those of other schedulers refer to, or those with a node, does not matter."""
    info = pod_info(document)
    is_waiting = info.scheduler_name == scheduler and not info.node
    references = _references(document)
    return WaitingPod(
        info,
        tuple(claims_of(document)) if is_waiting else (),
        required_config_maps(document) if is_waiting else (),
        is_waiting,
        tuple(each["name"] for each in references),
        frozenset(each["name"] for each in references if each.get("resourceClaimTemplateName")),
    )


def _references(pod: Document) -> list[Document]:
    """The resource claims of a pod, without those that turned out not to be needed."""
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    waived = {each["name"] for each in made if not each.get("resourceClaimName")}
    references = (pod.get("spec") or {}).get("resourceClaims") or ()
    return [each for each in references if each["name"] not in waived]


def with_demands(pod: WaitingPod, around: Surroundings) -> PodInfo:
    """A pod with what its claims demand now, and what it lacks to start at all."""
    info = pod.info
    if not (pod.claims or pod.config_maps or pod.references):
        return info
    demands = VolumeDemands()
    if pod.claims:
        demands = volume_demands(
            pod.claims,
            claim=lambda name: around.claim(info.namespace, name),
            volume=around.volume,
            storage_class=around.storage_class,
            volumes=around.volumes,
        )
    missing = [name for name in pod.config_maps if not around.has_config_map(info.namespace, name)]
    problems = [f"VolumeBinding: {demands.problem}"] if demands.problem else []
    if missing:
        problems.append(f"ConfigMap: {missing_config_maps(missing)}")
    if pod.references:
        gpus = (around.resource_claim(info.namespace, each.claim) for each in info.claims)
        info = replace(info, claimed_gpus=sum(claim_gpus(each) for each in gpus if each is not None))
        if not pod.is_waiting:
            return info
        problems += [f"DynamicResources: {each}" for each in _claim_problems(pod, around)]
    constraints = replace(
        info.constraints, volume_nodes=demands.nodes, claim_nodes=demands.open, problems=tuple(problems)
    )
    return replace(info, constraints=constraints)


def _claim_problems(pod: WaitingPod, around: Surroundings) -> Iterator[str]:
    """What is wrong with the resource claims of a pod."""
    info = pod.info
    names = {each.reference: each.claim for each in info.claims}
    for reference in pod.references:
        name = names.get(reference)
        if name is None:
            yield f"no resource claim name found for pod {info.key} and claim reference {reference}"
            continue
        key = Key(info.namespace, name)
        claim = around.resource_claim(info.namespace, name)
        if claim is None:
            text = f'resourceclaim.resource.k8s.io "{name}" not found'
            yield f"failed to get resource claim {key}: {text}"
            continue
        queue = around.queue_of(info.namespace, info.pod_group)
        problem = claim_problem(claim, is_template=reference in pod.templates, queue=queue)
        if problem:
            yield f"pod {info.key} cannot be scheduled: {problem}"
            continue
        problem = around.devices().problems.get((info.namespace, name), "")
        if problem:
            yield f"claim {key}: {problem}"
