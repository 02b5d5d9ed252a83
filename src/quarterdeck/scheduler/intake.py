"""Nodes and pods of the API as the snapshot wants them.

The functions read plain documents, as they come from a cache that keeps bytes. They depend on nothing but
the object, so the caller may keep a result for as long as the object's version lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from quarterdeck.api import Quantity, Time, from_dict
from quarterdeck.api.k8s import Affinity, Taint, Toleration
from quarterdeck.api.quota import amounts_of, pod_requests
from quarterdeck.scheduler.device import PodClaim
from quarterdeck.scheduler.resource import resources_of
from quarterdeck.scheduler.snapshot import (
    GpuShare,
    HostPort,
    MigStrategy,
    NodeInfo,
    PodConstraints,
    PodInfo,
)

Document = Mapping[str, Any]

_PRESSURES: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
_GPU_GROUP_LABEL: Final = "runai-gpu-group"
_MIG_LABEL: Final = "node-role.kubernetes.io/mig-enabled"
_MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
_MIG_RESOURCE: Final = "nvidia.com/mig-"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_NO_CONSTRAINTS: Final = PodConstraints()
_MEBIBYTE: Final = 1 << 20
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def node_info(node: Document) -> NodeInfo:
    """A node."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    amounts = amounts_of(status.get("allocatable"))
    conditions = {each["type"]: each.get("status") for each in status.get("conditions") or ()}
    labels = metadata.get("labels") or {}
    return NodeInfo(
        name=metadata["name"],
        allocatable=resources_of(amounts),
        pods=amounts.get("pods", Quantity(0)).value,
        labels=labels,
        taints=tuple(from_dict(each, Taint) for each in spec.get("taints") or ()),
        is_ready=conditions.get("Ready", "True") == "True",
        is_unschedulable=bool(spec.get("unschedulable")),
        pressures=tuple(
            sorted(kind for kind, value in conditions.items() if kind in _PRESSURES and value != "False")
        ),
        gpu_memory=_gpu_memory(labels.get(_GPU_MEMORY_LABEL, "")),
        mig_strategy=_mig_strategy(labels, amounts),
    )


def _mig_strategy(labels: Mapping[str, str], amounts: Mapping[str, Quantity]) -> MigStrategy:
    """How the node offers instances of GPUs; a label says so, or what it offers."""
    flag = labels.get(_MIG_LABEL)
    has_instances = any(name.startswith(_MIG_RESOURCE) for name in amounts)
    is_cut = flag in _TRUE if flag is not None else has_instances
    if not is_cut:
        return ""
    match labels.get(_MIG_STRATEGY_LABEL):
        case "single":
            return "single"
        case "mixed":
            return "mixed"
    return "none"


def _gpu_memory(text: str) -> int:
    """MiB in whole hundreds, so that two shares of a device never need its last odd bytes."""
    if not text.isdecimal():
        return 0
    amount = int(text)
    if amount >= _MEBIBYTE:  # a device has no terabytes: some versions of the labeller write bytes
        amount //= _MEBIBYTE
    return amount - amount % 100


def pod_info(pod: Document) -> PodInfo:
    """A pod; what its volumes demand is for the caller to add."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    created, deleted = metadata.get("creationTimestamp"), metadata.get("deletionTimestamp")
    return PodInfo(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        created=Time(created).timestamp() if created else 0.0,
        labels=labels,
        scheduler_name=spec.get("schedulerName") or "default-scheduler",
        phase=status.get("phase") or "Pending",
        node=spec.get("nodeName") or "",
        nominated_node=status.get("nominatedNodeName") or "",
        is_deleted=deleted is not None,
        deleted=Time(deleted).timestamp() if deleted else None,
        is_gated=bool(spec.get("schedulingGates")),
        pod_group=annotations.get("pod-group-name") or "",
        subgroup=labels.get("kai.scheduler/subgroup-name") or "",
        request=resources_of(pod_requests(pod)),
        gpu_share=_gpu_share(annotations),
        gpu_groups=gpu_groups_of(labels),
        claims=_claims(spec, status),
        constraints=constraints_of(spec),
    )


def _claims(spec: Document, status: Document) -> tuple[PodClaim, ...]:
    """The resource claims of a pod, as far as they exist."""
    references = spec.get("resourceClaims")
    if not references:
        return ()
    made = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    found = ((each["name"], each.get("resourceClaimName") or made.get(each["name"])) for each in references)
    return tuple(PodClaim(reference, name) for reference, name in found if name)


def constraints_of(spec: Document) -> PodConstraints:
    """Where a pod with this spec may run."""
    selector = spec.get("nodeSelector")
    affinity = spec.get("affinity")
    tolerations = spec.get("tolerations")
    ports = _host_ports(spec)
    if not (selector or affinity or tolerations or ports):
        return _NO_CONSTRAINTS
    return PodConstraints(
        node_selector=tuple(sorted((selector or {}).items())),
        affinity=from_dict(affinity, Affinity) if affinity else None,
        tolerations=_tolerations(_encode(tolerations)) if tolerations else (),
        host_ports=ports,
    )


@lru_cache(maxsize=1024)
def _tolerations(raw: bytes) -> tuple[Toleration, ...]:
    """Most pods have those of others."""
    return tuple(from_dict(each, Toleration) for each in _decode(raw))


def _host_ports(spec: Document) -> tuple[HostPort, ...]:
    containers: Iterable[Document] = (
        *(spec.get("containers") or ()),
        *(each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"),
    )
    return tuple(
        HostPort(port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or HostPort.ANY)
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _gpu_share(annotations: Mapping[str, str]) -> GpuShare | None:
    """The shared GPU a pod asks for; requests that admission would refuse count as none."""
    fraction, memory = annotations.get("gpu-fraction"), annotations.get("gpu-memory")
    devices = annotations.get("gpu-fraction-num-devices", "1")
    try:
        portion = float(fraction) if fraction is not None else 0.0
        share = GpuShare(portion, int(memory) if memory is not None else 0, int(devices))
    except ValueError:
        return None
    is_valid = 0 <= share.portion < 1 and share.memory >= 0 and share.devices > 0
    return share if is_valid and (share.portion or share.memory) else None


def gpu_groups_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The shared GPUs that a pod with these labels holds."""
    prefix = f"{_GPU_GROUP_LABEL}/"
    several = sorted(value for key, value in labels.items() if key.startswith(prefix))
    if several:
        return tuple(several)
    single = labels.get(_GPU_GROUP_LABEL)
    return (single,) if single else ()
