"""The two validating webhooks.

Both judge the v1 form of an object, whatever version the request has. Codes: 403 for a denial (all violated
rules are in ``details.causes``), 400 for an object that cannot be read, 500 for unreadable cluster state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from quarterdeck.errors import BadRequest, ErrorCause, ErrorDetails, Forbidden
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic import policy, simple
from quarterdeck.operators.nodegroup.logic.clusterstate import StateError
from quarterdeck.operators.nodegroup.logic.conversion import (
    ConversionError,
    check_head,
    convert,
    fit_to_version,
    resolve,
)
from quarterdeck.operators.nodegroup.logic.policy import Change, ClusterState, Known, Verdict
from quarterdeck.runtime.webhook.admission import Admission
from quarterdeck.runtime.webhook.handler import AdmissionHandler
from quarterdeck.runtime.webhook.registration import WebhookRule

from .document import read_without_status
from .state import ClusterReader

Document = dict[str, Any]
T = TypeVar("T")
_JUDGED: Final = ("CREATE", "UPDATE")


def policy_webhook(cluster: ClusterReader) -> AdmissionHandler:
    """What the cluster allows; see ``logic.policy``."""

    async def review(admission: Admission) -> None:
        if admission.operation not in _JUDGED:
            return
        change = await _read_change(admission, cluster)
        state = await _read_state(change, cluster)
        _answer(admission, policy.judge(change, state))

    return AdmissionHandler(
        names.POLICY_PATH, review, name=names.POLICY_WEBHOOK, rules=(_rule("CREATE", "UPDATE"),)
    )


def simple_webhook(cluster: ClusterReader) -> AdmissionHandler:
    """What can be said without looking at the cluster, except to read old versions; see ``logic.simple``."""

    async def review(admission: Admission) -> None:
        if admission.operation not in _JUDGED:
            return
        _answer(admission, simple.judge(await _read_change(admission, cluster)))

    return AdmissionHandler(
        names.SIMPLE_PATH, review, name=names.SIMPLE_WEBHOOK, rules=(_rule("CREATE", "UPDATE", "DELETE"),)
    )


def _rule(*operations: str) -> WebhookRule:
    # Every version, as the hooks before had it: a request is judged in its v1 form whoever converts it.
    return WebhookRule((names.GROUP,), ("*",), ("nodegroups",), operations, "Cluster")


def _answer(admission: Admission, verdict: Verdict) -> None:
    if not verdict.is_allowed:
        causes = tuple(ErrorCause(message=text) for text in verdict.violations)
        raise Forbidden(verdict.violations[0], details=ErrorDetails(causes=causes))
    for text in verdict.warnings:
        admission.warn(text)


async def _read_change(admission: Admission, cluster: ClusterReader) -> Change:
    unresolved: list[Document] = []
    try:
        new = _read(admission.raw_object, unresolved)
        old = _read(admission.raw_old_object, unresolved) if admission.operation == "UPDATE" else None
    except ConversionError as error:
        raise BadRequest(str(error)) from error
    if unresolved:
        permanent = await cluster.permanent_groups()
        for group in unresolved:
            resolve(group, permanent)
    name = (new.get("metadata") or {}).get("name") or admission.name
    return Change(name=name, new=new, old=old)


def _read(raw: bytes, unresolved: list[Document]) -> Document:
    if not raw:
        raise ConversionError("the request has no object")
    document = read_without_status(raw)
    if check_head(document) == names.V1:
        return fit_to_version(document, names.V1)
    converted: Document = convert(document, names.V1, unresolved)
    return converted


async def _read_state(change: Change, cluster: ClusterReader) -> ClusterState:
    configuration = await cluster.configuration()
    needs = policy.needs_of(change, configuration)
    return ClusterState(
        configuration=configuration,
        global_prefix=await _known(cluster.global_prefix) if needs.global_prefix else "",
        zones=await _known(cluster.zones) if needs.zones else (),
        toleration_keys=await _known(cluster.toleration_keys) if needs.toleration_keys else (),
        endpoints=await _known(cluster.endpoints) if needs.endpoints else 0,
        custom_nodes=await _known(lambda: cluster.custom_nodes(change.name)) if needs.custom_nodes else (),
        unsupported_nodes=await _known(lambda: cluster.unsupported_nodes(change.name))
        if needs.unsupported_nodes
        else (),
    )


async def _known(read: Callable[[], Awaitable[T]]) -> Known[T]:
    """The part of the state, or its error: whether that matters depends on the checks before."""
    try:
        return await read()
    except StateError as error:
        return error
