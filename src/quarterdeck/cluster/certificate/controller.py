"""The controllers of CertificateSigningRequests: approve a kubelet's own, sign what is approved, clean up."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from quarterdeck.api import Time
from quarterdeck.api.k8s import CertificateSigningRequest, SubjectAccessReview
from quarterdeck.api.k8s.authorization import ResourceAttributes, SubjectAccessReviewSpec
from quarterdeck.api.k8s.certificates import CertificateSigningRequestCondition
from quarterdeck.cluster.certificate.request import (
    KUBELET_CLIENT,
    SIGNERS,
    common_name,
    parse_request,
    refusal,
)
from quarterdeck.cluster.certificate.signature import Signer
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import ConfigError, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.wire.certificate import expiry_of

APPROVING: Final = "certificatesigningrequest-approving-controller"
SIGNING: Final = "certificatesigningrequest-signing-controller"
CLEANING: Final = "certificatesigningrequest-cleaner-controller"
_GROUP: Final = "certificates.k8s.io"
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
Csr = CertificateSigningRequest


def _has(request: Csr, type: str) -> bool:
    return any(each.type == type and each.status == "True" for each in request.status.conditions)


def _is_decided(request: Csr) -> bool:
    return any(each.type in ("Approved", "Denied") for each in request.status.conditions)


def _asked(request: Csr) -> bytes:
    return request.spec.request if isinstance(request.spec.request, bytes) else b""


async def _approve(ctx: Context[Csr]) -> Result | None:
    """Approve the client certificate of a kubelet that may ask for it."""
    request = ctx.obj
    if request.status.certificate or _is_decided(request) or request.spec.signer_name != KUBELET_CLIENT:
        return None
    asked = parse_request(_asked(request))
    if refusal(KUBELET_CLIENT, asked, request.spec.usages):
        return None
    ways = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
    if request.spec.username == common_name(asked):
        text = "Auto approving self kubelet client certificate after SubjectAccessReview."
        ways.insert(0, ("selfnodeclient", text))
    for subresource, text in ways:
        if await _may(ctx, request, subresource):
            approved = CertificateSigningRequestCondition(
                type="Approved", status="True", reason="AutoApproved", message=text
            )
            status = request.status.evolve(conditions=(*request.status.conditions, approved))
            await ctx.client.subresource("approval").update(request.evolve(status=status))
            return None
    tried = " ".join(subresource for subresource, _ in ways)
    ctx.log.info("a kubelet's request is not approved: its subject may not ask for it", tried=tried)
    return None


async def _may(ctx: Context[Csr], request: Csr, subresource: str) -> bool:
    what = ResourceAttributes(
        group=_GROUP,
        resource="certificatesigningrequests",
        verb="create",
        subresource=subresource,
        version="*",
    )
    spec = request.spec
    review = SubjectAccessReview(
        spec=SubjectAccessReviewSpec(
            user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=what
        )
    )
    return (await ctx.client.create(review)).status.allowed is True


class _Signing(Reconciler[Csr]):
    def __init__(self, signer: Signer) -> None:
        self._signer: Final = signer
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[Csr]) -> Result | None:
        """Sign what is approved, or say why not."""
        request = ctx.obj
        name = request.spec.signer_name
        if request.status.certificate or name not in SIGNERS or _has(request, "Failed"):
            return None
        if not _has(request, "Approved") or _has(request, "Denied"):
            return None
        asked = parse_request(_asked(request))
        why = refusal(name, asked, request.spec.usages)
        if why:
            failed = CertificateSigningRequestCondition(
                type="Failed",
                status="True",
                reason="SignerValidationFailure",
                message=why,
                last_update_time=ctx.now(),
            )
            status = request.status.evolve(conditions=(*request.status.conditions, failed))
            await ctx.client.status.update(request.evolve(status=status))
            return None
        seconds = request.spec.expiration_seconds
        certificate = self._signer.sign(
            asked, request.spec.usages, self._clock.time(), seconds if isinstance(seconds, int) else None
        )
        await ctx.client.status.update(request.evolve(status=request.status.evolve(certificate=certificate)))
        return None


class _Cleaning(Reconciler[Csr]):
    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[Csr]) -> Result | None:
        """Delete a request that has served its time."""
        left = time_left(ctx.obj, self._clock.time())
        if left > 0:
            return Requeue(after=left)
        with ignore_not_found():
            await ctx.delete(ctx.obj)
        return None


def time_left(request: Csr, now: float) -> float:
    """Seconds until a request goes: an hour after it was decided, a day if nothing came of it."""
    status = request.status
    ends = []
    if not status.conditions:
        ends.append(_seconds(request.metadata.creation_timestamp, now) + _DAY)
    for each in status.conditions:
        decided = _seconds(each.last_update_time, now)
        if each.type in ("Denied", "Failed") or (each.type == "Approved" and status.certificate):
            ends.append(decided + _HOUR)
        elif each.type == "Approved":
            ends.append(decided + _DAY)
    if isinstance(status.certificate, bytes) and status.certificate and _has(request, "Approved"):
        with suppress(ConfigError):  # somebody else's signer may have written anything
            ends.append(expiry_of(status.certificate))
    return min(ends, default=now + _DAY) - now


def _seconds(time: object, otherwise: float) -> float:
    return time.timestamp() if isinstance(time, Time) else otherwise


_CHANGED: Final = Predicate("changed", delete=lambda _: False)


def _builder(name: str, *rules: Rule) -> Any:
    return (
        Builder(name=name)
        .for_(CertificateSigningRequest, predicates=[_CHANGED])
        .rbac(*rules)
        .options(field_manager=FIELD_MANAGER)
    )


def approving_controller() -> Controller[Csr]:
    """Approves kubelets' requests, for ``manager.add``."""
    made: Controller[Csr] = _builder(
        APPROVING,
        Rule(groups=(_GROUP,), resources=("certificatesigningrequests/approval",), verbs=("update",)),
        Rule(groups=(_GROUP,), resources=("signers",), verbs=("approve",)),
        Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    ).build(_approve)
    return made


def signing_controller(authority: bytes) -> Controller[Csr]:
    """Signs what is approved, for ``manager.add``; ``authority`` has certificate and key (PEM)."""
    made: Controller[Csr] = _builder(
        SIGNING,
        Rule(groups=(_GROUP,), resources=("certificatesigningrequests/status",), verbs=("update",)),
        Rule(groups=(_GROUP,), resources=("signers",), verbs=("sign",)),
    ).build(_Signing(Signer(authority)))
    return made


def cleaning_controller() -> Controller[Csr]:
    """Deletes old requests, for ``manager.add``."""
    made: Controller[Csr] = _builder(
        CLEANING, Rule(groups=(_GROUP,), resources=("certificatesigningrequests",), verbs=("delete",))
    ).build(_Cleaning())
    return made
