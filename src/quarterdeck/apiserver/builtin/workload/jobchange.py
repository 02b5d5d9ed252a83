"""What of a Job's spec may change once it is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import immutable, same
from quarterdeck.wire.fielderror import (
    FieldError,
    invalid,
)


def validate_completions(spec: Json, old: Json) -> list[FieldError]:
    new, before = spec.get("completions"), old.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable(new, before, "spec.completions")
    if new == before or new is None or new == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def validate_template_change(spec: Json, old: Json, status: Mapping[str, Any]) -> list[FieldError]:
    template: Json = spec.get("template") or {}
    before: Json = old.get("template") or {}
    if same(template, before):
        return []
    suspended = bool(old.get("suspend"))
    flexible = (
        suspended
        and not status.get("active")
        and (not status.get("startTime") or _is_true(status, "Suspended"))
    )
    if not flexible:
        return immutable(template, before, "spec.template", struct="PodTemplateSpec")
    new_pod: Json = template.get("spec") or {}
    old_pod = dict(before.get("spec") or {})
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        old_pod[key] = new_pod.get(key)
    wanted = (new_pod.get("affinity") or {}).get("nodeAffinity")
    affinity = {key: value for key, value in (old_pod.get("affinity") or {}).items() if key != "nodeAffinity"}
    old_pod["affinity"] = {**affinity, "nodeAffinity": wanted} if wanted else affinity
    for key in ("containers", "initContainers"):
        new, were = new_pod.get(key) or [], old_pod.get(key) or []
        if len(new) == len(were):
            old_pod[key] = [
                {**was, "resources": container.get("resources")}
                if container.get("name") == was.get("name")
                else was
                for container, was in zip(new, were, strict=True)
            ]
    return immutable(new_pod, old_pod, "spec.template.spec", struct="PodSpec")


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions)
