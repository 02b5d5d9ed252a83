"""Gives the resource claims of a pod the devices that the scheduler chose, before the pod is bound.

As kube-scheduler does it: the claim is protected from deletion, gets its allocation unless it has one, and is
reserved for the pod. Who made these writes last wins nothing: a claim that has other devices by now, or that
somebody changed meanwhile, makes the attempt fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from quarterdeck.api import UNSET, to_dict
from quarterdeck.api.k8s import Pod, ResourceClaim
from quarterdeck.client import MergePatch
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.operators.kai.types import BindRequest
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.scheduler.deviceintake import read_allocation
from quarterdeck.scheduler.intake import pod_info

Document = Mapping[str, Any]
PROTECTION: Final = "resource.kubernetes.io/delete-protection"
_ATTEMPTS: Final = 5
"""To write a claim that others write, too."""

RULES: Final = (
    Rule(groups=("resource.k8s.io",), resources=("resourceclaims",), verbs=("get", "patch")),
    Rule(
        groups=("resource.k8s.io",),
        resources=("resourceclaims/binding", "resourceclaims/status"),
        verbs=("patch",),
    ),
)


class ClaimError(QuarterdeckError):
    """A claim cannot have the devices that were chosen for it; another place must be."""


async def reserve_resource_claims(ctx: Context[BindRequest], pod: Pod) -> None:
    """See to the claims of a pod; ``ClaimError`` if one has other devices or is gone."""
    for name, allocation in _given(ctx.obj, pod):
        await _reserve(ctx, pod, name, allocation)


async def release_resource_claims(ctx: Context[BindRequest], pod: Pod) -> None:
    """Take back what was done for a pod that is not bound after all."""
    for name, allocation in _given(ctx.obj, pod):
        await _change(ctx, pod, name, partial(_released, pod=pod, allocation=allocation))


def _given(request: BindRequest, pod: Pod) -> Iterable[tuple[str, Document]]:
    """The names of the pod's claims, with what the request gives them."""
    claims = {each.reference: each.claim for each in pod_info(pod.to_dict()).claims}
    for each in request.spec.resource_claim_allocations:
        if each.name not in claims:
            raise ClaimError(f"claim {each.name} from bind request not found in pod {pod.key}")
        if each.allocation is UNSET:
            raise ClaimError(f"empty status for claim {each.name} in bind request for pod {pod.key}")
        yield claims[each.name], to_dict(each.allocation)


async def _reserve(ctx: Context[BindRequest], pod: Pod, name: str, allocation: Document) -> None:
    found = await _change(ctx, pod, name, partial(_reserved, pod=pod, allocation=allocation))
    if found is None:
        raise ClaimError(f"resource claim {pod.metadata.namespace}/{name} not found: create it")


async def _change(
    ctx: Context[BindRequest],
    pod: Pod,
    name: str,
    change: Callable[[Document], dict[str, Any] | None],
) -> ResourceClaim | None:
    """Write the status that ``change`` makes of a claim, on the newest version; none if there is no claim."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            claim = await ctx.client.get(ResourceClaim, name, pod.metadata.namespace)
            status = change(claim.to_dict())
            if status is None:
                return claim
            if status.get("allocation") is not None and PROTECTION not in claim.metadata.finalizers:
                protected = {
                    "resourceVersion": claim.metadata.resource_version,
                    "finalizers": [*claim.metadata.finalizers, PROTECTION],
                }
                claim = await ctx.client.patch(claim, MergePatch({"metadata": protected}))
            version = {"resourceVersion": claim.metadata.resource_version}
            return await ctx.client.status.patch(claim, MergePatch({"metadata": version, "status": status}))
        except NotFound:
            return None
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
    return None


def _reserved(claim: Document, pod: Pod, allocation: Document) -> dict[str, Any] | None:
    """The status of a claim that has the devices and serves the pod; none if it is so already."""
    status = claim.get("status") or {}
    has = status.get("allocation")
    if has is not None and read_allocation(has).devices != read_allocation(allocation).devices:
        raise ClaimError(f"resource claim {claim['metadata']['name']} has other devices by now")
    consumers = status.get("reservedFor") or []
    is_reserved = any(each.get("uid") == pod.metadata.uid for each in consumers)
    if has is not None and is_reserved:
        return None
    mine = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    return {
        "allocation": has if has is not None else allocation,
        "reservedFor": consumers if is_reserved else [*consumers, mine],
    }


def _released(claim: Document, pod: Pod, allocation: Document) -> dict[str, Any] | None:
    """The status of a claim that does not serve the pod; its devices go with the last that it served."""
    status = claim.get("status") or {}
    consumers = status.get("reservedFor") or []
    others = [each for each in consumers if each.get("uid") != pod.metadata.uid]
    has = status.get("allocation")
    is_ours = has is not None and read_allocation(has).devices == read_allocation(allocation).devices
    if len(others) == len(consumers) and (others or not is_ours):
        return None
    return {"reservedFor": others or None, "allocation": None if is_ours and not others else has}
