"""What a pod that waits demands beyond what it says itself: of its volumes, and to start at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.scheduler.intake import pod_info
from quarterdeck.scheduler.snapshot import PodInfo

from .configmap import missing_config_maps, required_config_maps
from .volume import VolumeDemands, claims_of, volume_demands

__all__ = ["Surroundings", "WaitingPod", "read_pod", "with_demands"]

Document = Mapping[str, Any]


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod, and what it refers to as long as it has no node."""

    info: PodInfo
    claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """How to find what pods refer to."""

    claim: Callable[[str, str], Document | None]
    """By namespace and name."""
    volume: Callable[[str], Document | None]
    storage_class: Callable[[str], Document | None]
    volumes: Callable[[], Collection[Document]]
    has_config_map: Callable[[str, str], bool]
    """By namespace and name."""


def read_pod(document: Document, scheduler: str) -> WaitingPod:
    """A pod; what those of other schedulers refer to, or those with a node, does not matter."""
    info = pod_info(document)
    if info.scheduler_name != scheduler or info.node:
        return WaitingPod(info)
    return WaitingPod(info, tuple(claims_of(document)), required_config_maps(document))


def with_demands(pod: WaitingPod, around: Surroundings) -> PodInfo:
    """A pod with what its claims demand now, and what it lacks to start at all."""
    info = pod.info
    if not pod.claims and not pod.config_maps:
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
    constraints = replace(
        info.constraints, volume_nodes=demands.nodes, claim_nodes=demands.open, problems=tuple(problems)
    )
    return replace(info, constraints=constraints)
