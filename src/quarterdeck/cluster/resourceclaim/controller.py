"""The resource claim controller: makes the claims of pods from templates, and lets unused claims go.

A claim is reserved for those who use it; when the last one has ended, its devices are free again. Keys are
those of pods and of claims, told apart by a prefix of the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import UNSET, Key, ObjectMeta, OwnerReference, Resource, controller_of
from quarterdeck.api.k8s import Pod, ResourceClaim, ResourceClaimTemplate
from quarterdeck.api.k8s.pod import PodResourceClaim
from quarterdeck.api.k8s.resource import ResourceClaimConsumerReference
from quarterdeck.client import StrategicMergePatch
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, QuarterdeckError, ReconcileError, ignore_not_found
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "resourceclaim-controller"
EVENT_SOURCE: Final = "resource_claim"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim: which entry of its pod it was made for."""
_LONGEST_BASE: Final = 57
_MOST_CONSUMERS: Final = 256
_WORKERS: Final = 8
_POD: Final = "pod:"
_CLAIM: Final = "claim:"
_MARK: Final = b'"resourceClaims":'


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The claim of an entry of a pod; ``None`` if the pod needs none, nothing if it is not made yet."""
    if isinstance(entry.resource_claim_name, str):
        return entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name if isinstance(status.resource_claim_name, str) else None
    return ""


def generated_base(pod: str, entry: str) -> str:
    """What the name of a claim begins with; of long names both parts are cut alike."""
    base = f"{pod}-{entry}-"
    if len(base) <= _LONGEST_BASE:
        return base
    whole = len(base)
    first = pod[: len(pod) * _LONGEST_BASE // whole]
    return f"{first}-{entry[: len(entry) * _LONGEST_BASE // whole]}"


def is_done(pod: Pod) -> bool:
    """Whether a pod will never use its claims (again)."""
    return pod.status.phase in ("Succeeded", "Failed") or (
        pod.metadata.is_deleting and not pod.spec.node_name
    )


class _ClaimReconciler(Reconciler[Resource]):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One pod, or one claim."""
        name, namespace = ctx.key.name, ctx.key.namespace
        try:
            if name.startswith(_POD):
                await self._pod(ctx, await ctx.get(Pod, name.removeprefix(_POD), namespace))
            else:
                claim = await ctx.get(ResourceClaim, name.removeprefix(_CLAIM), namespace)
                await _release(ctx, claim)
        except NotFound:
            return None
        return None

    async def _pod(self, ctx: Context[Resource], pod: Pod) -> None:
        if pod.metadata.is_deleting or is_done(pod):
            return
        made: dict[str, str] = {}
        for entry in pod.spec.resource_claims:
            try:
                name = await _made_for(ctx, pod, entry)
            except QuarterdeckError as error:
                text = f"PodResourceClaim {entry.name}: {error}"
                self._recorder.event(pod, "Warning", "FailedResourceClaimCreation", "Create", text)
                where = f"{pod.metadata.namespace}/{pod.metadata.name}"
                raise ReconcileError(f"pod {where}, {text}") from error
            if name:
                made[entry.name] = name
        if made:
            statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
            pod = await ctx.client.status.patch(pod, StrategicMergePatch(patch))
        if pod.spec.node_name:
            await _reserve(ctx, pod)


async def _made_for(ctx: Context[Resource], pod: Pod, entry: PodResourceClaim) -> str:
    """The claim made for an entry that has none; empty if there is nothing to tell the pod."""
    name = claim_name(pod, entry)
    if name is None or not isinstance(entry.resource_claim_template_name, str):
        return ""
    if name:
        try:
            known = await ctx.get(ResourceClaim, name, pod.metadata.namespace)
        except NotFound:
            known = None
        if known is not None and _is_owned(known, pod):
            return ""
    for claim in _claims(ctx.cache, pod.metadata.namespace):
        if _is_owned(claim, pod) and claim.metadata.annotations.get(POD_CLAIM) == entry.name:
            return claim.metadata.name
    wanted = entry.resource_claim_template_name
    try:
        template = await ctx.get(ResourceClaimTemplate, wanted, pod.metadata.namespace)
    except NotFound as error:
        text = (
            f'resource claim template "{wanted}": resourceclaimtemplate.resource.k8s.io "{wanted}" not found'
        )
        raise ReconcileError(text) from error
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    metadata = ObjectMeta(
        generate_name=generated_base(pod.metadata.name, entry.name),
        namespace=pod.metadata.namespace,
        labels=template.spec.metadata.labels,
        annotations={**template.spec.metadata.annotations, POD_CLAIM: entry.name},
        owner_references=(owner,),
    )
    made = await ctx.client.create(ResourceClaim(metadata=metadata, spec=template.spec.spec))
    return made.metadata.name


def _is_owned(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim.metadata.owner_references)
    return owner is not None and owner.uid == pod.metadata.uid


async def _reserve(ctx: Context[Resource], pod: Pod) -> None:
    """Reserve what a pod uses that somebody bound without a scheduler's help."""
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if not name:
            continue
        claim = await ctx.get(ResourceClaim, name, pod.metadata.namespace)
        users = claim.status.reserved_for
        if not claim.status.allocation or any(each.uid == pod.metadata.uid for each in users):
            continue
        if len(users) >= _MOST_CONSUMERS:
            continue
        mine = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status = claim.status.evolve(reserved_for=(*users, mine))
        await ctx.client.status.update(claim.evolve(status=status))


async def _release(ctx: Context[Resource], claim: ResourceClaim) -> None:
    """Strike out users that have ended; without any, devices and claim are free."""
    users = claim.status.reserved_for
    left = [each for each in users if await _is_used_by(ctx, claim, each)]
    is_protected = FINALIZER in claim.metadata.finalizers
    if len(left) < len(users):
        status = claim.status.evolve(reserved_for=tuple(left))
        if not left and is_protected:
            status = status.evolve(allocation=UNSET)
        claim = await ctx.client.status.update(claim.evolve(status=status))
        if is_protected and not claim.status.allocation:
            claim = await _unprotect(ctx, claim)
    elif is_protected and claim.metadata.is_deleting and not left:
        if claim.status.allocation:
            claim = await ctx.client.status.update(claim.evolve(status=claim.status.evolve(allocation=UNSET)))
        await _unprotect(ctx, claim)
        return
    if left or claim.metadata.is_deleting:
        return
    owner = controller_of(claim.metadata.owner_references)
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return
    try:
        pod = await ctx.get(Pod, owner.name, claim.metadata.namespace)
    except NotFound:
        return  # perhaps it is not known yet; the garbage collector knows
    if pod.metadata.uid != owner.uid or is_done(pod):
        with ignore_not_found():
            await ctx.delete(claim)


async def _unprotect(ctx: Context[Resource], claim: ResourceClaim) -> ResourceClaim:
    left = tuple(each for each in claim.metadata.finalizers if each != FINALIZER)
    return await ctx.client.update(claim.evolve(metadata=claim.metadata.evolve(finalizers=left)))


async def _is_used_by(
    ctx: Context[Resource], claim: ResourceClaim, user: ResourceClaimConsumerReference
) -> bool:
    if user.api_group or user.resource != "pods":
        return True  # nobody here knows how to find that out
    for live in (False, True):
        try:
            pod = await ctx.get(Pod, user.name, claim.metadata.namespace, live=live)
        except NotFound:
            continue
        return pod.metadata.uid == user.uid and not is_done(pod)
    return False


def _claims(cache: Cache, namespace: str) -> Iterable[ResourceClaim]:
    informer = cache.informer(ResourceClaim)
    return map(informer.decoder(ResourceClaim), informer.entries(namespace))


class _OfPods:
    """The pod itself, and the claims it uses, or did."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        entry = event.entry
        pod = Pod.from_bytes(entry.raw)
        if event.new is not None and not pod.metadata.is_deleting:
            yield Key(entry.namespace, f"{_POD}{entry.name}")
        if event.new is None or is_done(pod):
            for each in pod.spec.resource_claims:
                name = claim_name(pod, each)
                if name:
                    yield Key(entry.namespace, f"{_CLAIM}{name}")


class _OfClaims:
    """The claim itself; the pod it was made for if it is gone, those that use it if it changed."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        claim = ResourceClaim.from_bytes(event.entry.raw)
        namespace = claim.metadata.namespace
        if event.new is not None:
            yield Key(namespace, f"{_CLAIM}{claim.metadata.name}")
        owner = controller_of(claim.metadata.owner_references)
        if event.new is None and owner is not None and owner.kind == "Pod":
            yield Key(namespace, f"{_POD}{owner.name}")
        if event.new is not None and claim.status.allocation:
            informer = context.cache.informer(Pod)
            for entry in informer.entries(namespace):
                if _MARK in entry.raw and claim.metadata.name.encode() in entry.raw:
                    yield Key(namespace, f"{_POD}{entry.name}")


class _OfTemplates:
    """The pods that wait for a template."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        for entry in context.cache.informer(Pod).entries(event.entry.namespace):
            if _MARK in entry.raw and event.entry.name.encode() in entry.raw:
                yield Key(entry.namespace, f"{_POD}{entry.name}")


def _uses_claims(event: ObjectEvent[Any]) -> bool:
    return _MARK in event.entry.raw


_WITH_CLAIMS: Final = Predicate("with_claims", create=_uses_claims, update=_uses_claims, delete=_uses_claims)
_NEW: Final = Predicate("new", update=lambda _: False, delete=lambda _: False)


def resource_claim_controller(recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``recorder`` takes events about pods."""
    return (
        Builder[Resource](name=NAME)
        .watches(Pod, to=_OfPods(), predicates=[_WITH_CLAIMS])
        .watches(ResourceClaim, to=_OfClaims())
        .watches(ResourceClaimTemplate, to=_OfTemplates(), predicates=[_NEW])
        .rbac(
            Rule(
                groups=("resource.k8s.io",),
                resources=("resourceclaims",),
                verbs=("create", "delete", "update"),
            ),
            Rule(
                groups=("resource.k8s.io",),
                resources=("resourceclaims/binding", "resourceclaims/status"),
                verbs=("update",),
            ),
            Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
        .build(_ClaimReconciler(recorder))
    )
