"""``spec.kubelet``: settings of the kubelet."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Maybe, Model
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.marker import AnyOf, Default, Enum, Ge, Le, OneOf, Pattern

_SIZE: Final = Pattern(r"\d+[Ei|Pi|Ti|Gi|Mi|Ki|E|P|T|G|M|k|m]")
"""Upstream's words: a character class, so one unit letter after digits suffices."""


class _Kubelet(Model):
    max_pods: Maybe[int] = UNSET
    """Pods per node; by default derived from the pod subnet of a node."""
    root_dir: Maybe[str] = UNSET
    """Where kubelet keeps its files; /var/lib/kubelet unless set."""
    container_log_max_size: Annotated[Maybe[str], Default("50Mi"), _SIZE] = UNSET
    """Size at which a container log is rotated."""
    container_log_max_files: Annotated[Maybe[int], Default(4), Ge(1), Le(20)] = UNSET
    """Rotated log files kept per container."""
    seccomp_default: Maybe[bool] = UNSET
    """Whether RuntimeDefault is the seccomp profile of pods that name none."""


class OldKubelet(_Kubelet):
    """Settings of the kubelet."""


class StaticReservation(
    Model, rules=[AnyOf(*({"required": [n]} for n in ("cpu", "memory", "ephemeralStorage")))]
):
    """What is reserved, in numbers."""

    cpu: Annotated[Maybe[IntOrString], Pattern(r"\d+[m]")] = UNSET
    """CPU that pods cannot use."""
    memory: Annotated[Maybe[IntOrString], _SIZE] = UNSET
    """Memory that pods cannot use."""
    ephemeral_storage: Annotated[Maybe[IntOrString], _SIZE] = UNSET
    """Disk space that pods cannot use."""


class ResourceReservation(
    Model,
    rules=[
        OneOf(
            {"properties": {"mode": {"enum": ["Static"]}}, "required": ["static"]},
            {"properties": {"mode": {"enum": ["Off", "Auto"]}}},
        )
    ],
):
    """Resources kept for the system daemons of a node."""

    mode: Annotated[Maybe[str], Default("Auto")] = UNSET
    """Off, Auto or Static."""
    static: Maybe[StaticReservation] = UNSET


class TopologyManager(Model):
    """Alignment of CPUs and devices to NUMA nodes."""

    enabled: Annotated[Maybe[bool], Default(False)] = UNSET
    scope: Annotated[Maybe[str], Default("Container"), Enum("Container", "Pod")] = UNSET
    """Whether containers or whole pods are aligned."""
    policy: Annotated[
        Maybe[str], Default("None"), Enum("None", "BestEffort", "Restricted", "SingleNumaNode")
    ] = UNSET
    """How strictly resources must be of one NUMA node."""


class LimitedSwap(Model):
    """A limited amount of swap."""

    size: Annotated[str, Pattern(r"^\d+G$")]
    """How much may be swapped."""


class MemorySwap(
    Model,
    rules=[
        OneOf(
            {
                "properties": {"swapBehavior": {"enum": ["NoSwap"]}},
                "not": {"required": ["limitedSwap"]},
            },
            {"properties": {"swapBehavior": {"enum": ["LimitedSwap"]}}, "required": ["limitedSwap"]},
        )
    ],
):
    """Whether pods may swap; needs cgroup v2."""

    swap_behavior: Annotated[Maybe[str], Enum("NoSwap", "LimitedSwap")] = UNSET
    """Whether pods may swap."""
    swappiness: Annotated[Maybe[int], Default(60), Ge(0), Le(100)] = UNSET
    """How eager the kernel is to swap, 0 to 100."""
    limited_swap: Maybe[LimitedSwap] = UNSET


class Kubelet(_Kubelet):
    """Settings of the kubelet."""

    resource_reservation: Annotated[Maybe[ResourceReservation], Default({})] = UNSET
    topology_manager: Maybe[TopologyManager] = UNSET
    memory_swap: Maybe[MemorySwap] = UNSET
