"""Simple validation: what can be said about a group without looking at the cluster.

Most of it is caught earlier by the schema; it is here for callers that reach the webhook without one.
All objects are v1 documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.operators.nodegroup import names

from .policy import Change, Verdict, is_window_time

Document = Mapping[str, Any]

_NAME: Final = re.compile(names.NAME_PATTERN, re.ASCII)
_EMPTY: Final[Document] = {}
_CRI_SECTIONS: Final = (
    ("docker", names.DOCKER),
    ("containerd", names.CONTAINERD),
    ("containerdV2", names.CONTAINERD_V2),
    ("notManaged", names.NOT_MANAGED),
)


def judge(change: Change) -> Verdict:
    """All violations, in the order of the checks."""
    return Verdict(violations=tuple(_violations(change)))


def _violations(change: Change) -> Iterator[str]:
    spec = change.spec
    if change.is_update and (spec.get("nodeType") or "") != (change.old_spec.get("nodeType") or ""):
        yield "spec.nodeType is immutable and cannot be changed"
    yield from _name(change.name)
    yield from _node_type(spec)
    yield from _disruptions(spec)
    yield from _cri(spec.get("cri") or _EMPTY)


def _name(name: str) -> Iterator[str]:
    if len(name) > names.MAX_NAME_LENGTH:
        yield f"name must be no more than {names.MAX_NAME_LENGTH} characters, got {len(name)}"
    if not _NAME.fullmatch(name):
        yield f"name must match pattern {names.NAME_PATTERN}"


def _node_type(spec: Document) -> Iterator[str]:
    kind = spec.get("nodeType") or ""
    if kind not in names.NODE_TYPES:
        yield f"invalid nodeType: {kind}, must be one of: {', '.join(names.NODE_TYPES)}"
    elif kind == names.CLOUD_EPHEMERAL:
        yield from _cloud_instances(spec.get("cloudInstances"))
    elif kind == names.STATIC and spec.get("cloudInstances") is not None:
        yield "spec.cloudInstances must not be set for nodeType Static"


def _cloud_instances(instances: Document | None) -> Iterator[str]:
    if instances is None:
        yield "spec.cloudInstances is required for nodeType CloudEphemeral"
        return
    low, high = instances.get("minPerZone") or 0, instances.get("maxPerZone") or 0
    if low > high:
        yield f"spec.cloudInstances.minPerZone ({low}) cannot be greater than maxPerZone ({high})"
    reference = instances.get("classReference") or _EMPTY
    if not reference.get("kind"):
        yield "spec.cloudInstances.classReference.kind is required"
    if not reference.get("name"):
        yield "spec.cloudInstances.classReference.name is required"
    if reference.get("kind") and reference["kind"] not in names.INSTANCE_CLASS_KINDS:
        yield f"invalid classReference.kind: {reference['kind']}"


def _disruptions(spec: Document) -> Iterator[str]:
    disruptions = spec.get("disruptions") or _EMPTY
    mode = disruptions.get("approvalMode")
    if mode and mode not in names.APPROVAL_MODES:
        yield f"invalid disruptions.approvalMode: {mode}"
    if mode == names.ROLLING_UPDATE and spec.get("nodeType") == names.STATIC:
        yield "disruptions.approvalMode RollingUpdate is not available for Static nodes"
    for section in ("automatic", "rollingUpdate"):
        for window in (disruptions.get(section) or _EMPTY).get("windows") or ():
            yield from _window(section, window or _EMPTY)


def _window(section: str, window: Document) -> Iterator[str]:
    for end in ("from", "to"):
        value = window.get(end) or ""
        if not is_window_time(value):
            yield f"invalid {section} window: invalid '{end}' time format: {value}, expected HH:MM"
    for day in window.get("days") or ():
        if day not in names.DAYS:
            yield f"invalid {section} window: invalid day: {day}"


def _cri(cri: Document) -> Iterator[str]:
    kind = cri.get("type")
    if not kind:
        return
    if kind not in names.CRI_TYPES:
        yield f"invalid cri.type: {kind}"
    for section, owner in _CRI_SECTIONS:
        if cri.get(section) is not None and kind != owner:
            yield f"cri.{section} can only be used with cri.type={owner}"
