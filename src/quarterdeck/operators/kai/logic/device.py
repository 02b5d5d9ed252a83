"""What KAI has to say about claims for devices: which of them are GPUs, and whose queue pays for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from quarterdeck.operators.kai import names
from quarterdeck.scheduler.device import MOST_CONSUMERS
from quarterdeck.scheduler.deviceintake import Slice
from quarterdeck.scheduler.snapshot import NodeInfo

Document = Mapping[str, Any]
_ALL: Final = "All"


def claimable_gpus(slices: Iterable[Slice]) -> dict[str, int]:
    """GPUs that are claimed rather than requested, by node."""
    gpus: dict[str, int] = {}
    for each in slices:
        if each.node and _is_gpu(each.driver):
            gpus[each.node] = gpus.get(each.node, 0) + len(each.devices)
    return gpus


def with_claimable_gpus(node: NodeInfo, gpus: Mapping[str, int]) -> NodeInfo:
    """A node with its GPUs that are claimed rather than requested.

    Where a device plugin offers GPUs too, they are the same ones: they count once, as what it offers.
    """
    count = gpus.get(node.name, 0) if not node.allocatable.gpu else 0
    return replace(node, claimable_gpus=count) if count else node


def _exact_gpu_requests(claim: Document) -> list[Document]:
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    exactly: list[Document] = [each.get("exactly") or {} for each in requests]
    return [each for each in exactly if _is_gpu(each.get("deviceClassName") or "")]


def _is_gpu(name: str) -> bool:
    return "gpu" in name.lower()


def is_gpu_claim(claim: Document) -> bool:
    """Whether a claim asks for GPUs, told by the names of device classes as KAI does."""
    return bool(_exact_gpu_requests(claim))


def claim_gpus(claim: Document) -> int:
    """GPUs that queues are charged for a pod with this claim; for "all of them" that is one."""
    return sum(
        1 if each.get("allocationMode") == _ALL else each.get("count") or 1
        for each in _exact_gpu_requests(claim)
    )


def claim_problem(claim: Document, *, is_template: bool, queue: str) -> str:
    """Why a pod of a queue may not use a claim."""
    metadata = claim["metadata"]
    where = f"{metadata.get('namespace', '')}/{metadata['name']}"
    if metadata.get("deletionTimestamp") is not None:
        return f"resource claim {where} is being deleted"
    if len((claim.get("status") or {}).get("reservedFor") or ()) >= MOST_CONSUMERS:
        return f"resource claim {where} has reached its maximum number of consumers ({MOST_CONSUMERS})"
    if is_template or not is_gpu_claim(claim):
        return ""
    label = (metadata.get("labels") or {}).get(names.QUEUE_LABEL, "")
    if not label:
        return (
            f"DRA claim {metadata['name']} is a shared GPU claim but does not have a queue label "
            f"({names.QUEUE_LABEL})"
        )
    if label != queue:
        return (
            f"DRA claim {metadata['name']} is a shared GPU claim with wrong queue label "
            f"(expected queue: {queue}, claim queue label: {label})"
        )
    return ""
