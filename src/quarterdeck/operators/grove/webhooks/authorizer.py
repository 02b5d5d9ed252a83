"""The authorizer: what the operator has made is changed by the operator."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Any, Final, Unpack

import msgspec

from quarterdeck.api import LabelSelector
from quarterdeck.errors import BadRequest, InternalError, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.authorization import Decision, Request, decide, unowned
from quarterdeck.runtime.webhook import AdmissionWebhook
from quarterdeck.runtime.webhook.admission import Admission, Denied
from quarterdeck.runtime.webhook.handler import AdmissionHandler, Handle
from quarterdeck.runtime.webhook.registration import SettingsOptions, WebhookRule

from .state import ClusterReader

_CHANGE: Final = ("UPDATE", "DELETE")
_ALL: Final = ("CREATE", "UPDATE", "DELETE")
_RULES: Final = (
    WebhookRule(("",), ("v1",), ("secrets", "serviceaccounts", "services"), _CHANGE, "Namespaced"),
    WebhookRule(("",), ("v1",), ("pods",), ("UPDATE",), "Namespaced"),
    WebhookRule(("rbac.authorization.k8s.io",), ("v1",), ("roles", "rolebindings"), _CHANGE, "Namespaced"),
    WebhookRule(("autoscaling",), ("v1", "v2"), ("horizontalpodautoscalers",), _CHANGE, "Namespaced"),
    WebhookRule(
        (names.GROUP,), (names.VERSION,), ("podcliques", "podcliquescalinggroups"), _ALL, "Namespaced"
    ),
    WebhookRule((names.SCHEDULER_GROUP,), (names.VERSION,), ("podgangs",), _ALL, "Namespaced"),
)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta = _Meta()


class _AnyOperation(AdmissionHandler):
    """Also answers operations that no API server sends."""

    def __init__(self, path: str, handle: Handle, **options: Unpack[SettingsOptions]) -> None:
        super().__init__(path, handle, **options)
        self._answer: Final = handle

    def review(self, admission: Admission) -> Awaitable[None] | None:
        return self._answer(admission)


class Authorizer:
    """Judges changes of managed objects."""

    def __init__(self, reader: ClusterReader, trusted: Collection[str]) -> None:
        """``trusted``: the operator's own account, and those that are exempt."""
        self._reader: Final = reader
        self._trusted: Final = frozenset(trusted)

    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """What to serve."""
        return (
            _AnyOperation(
                names.AUTHORIZER_PATH,
                self.review,
                name=names.AUTHORIZER_WEBHOOK,
                rules=_RULES,
                match_policy="Exact",
                object_selector=LabelSelector(match_labels={names.MANAGED_BY: names.OPERATOR}),
            ),
        )

    async def review(self, admission: Admission) -> None:
        """Judge one request."""
        if admission.operation == "CONNECT":
            admission.message = "operation CONNECT is allowed"
            return
        head = _read(admission)
        decision = await self._decide(admission, head)
        if decision.warning:
            admission.warn(decision.warning)
        if not decision.is_allowed:
            raise Denied(decision.message)
        admission.message = decision.message

    async def _decide(self, admission: Admission, head: _Head) -> Decision:
        namespace = head.metadata.namespace or admission.namespace
        key = f"{namespace}/{head.metadata.name or admission.name}"
        owner = (head.metadata.labels or {}).get(names.PART_OF, "")
        if not owner:
            return unowned(key, owner="", label=names.PART_OF)
        try:
            pcs = await self._reader.pod_clique_set(owner, namespace)
        except QuarterdeckError as error:
            raise InternalError(f"cannot read PodCliqueSet {namespace}/{owner}: {error}") from error
        if pcs is None:
            return unowned(key, owner=owner, label=names.PART_OF)
        request = Request(
            operation=admission.operation,
            user=admission.username,
            kind=head.kind or admission.gvk.kind,
            key=key,
        )
        return decide(
            request,
            owner=f"{namespace}/{owner}",
            is_protected=pcs.metadata.annotations.get(names.DISABLE_PROTECTION) != "true",
            trusted=self._trusted,
        )


def _read(admission: Admission) -> _Head:
    """The object in question: the new one of a create, otherwise the old one."""
    raw = admission.raw_object if admission.operation == "CREATE" else admission.raw_old_object
    try:
        found: Any = msgspec.json.decode(raw, type=_Head)
    except msgspec.DecodeError as error:
        raise BadRequest(f"cannot decode the object: {error}") from error
    head: _Head = found
    return head
