"""What of a pod's spec and annotations may change once it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import MAX_INT32, range_error
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.document.internalform import internal_diff, internal_form
from quarterdeck.apiserver.metadata import invalid_json
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required

from .annotation import MIRROR, validate_pod_annotations
from .container import validate_image_padding
from .placement import validate_tolerations

UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def validate_annotation_changes(pod: Json, old: Json) -> list[FieldError]:
    new: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    before: Mapping[str, str] = old["metadata"].get("annotations") or {}
    if new == before:
        return []
    errors: list[FieldError] = []
    for key in before:
        if key in new and new[key] == before[key]:
            continue
        if key.startswith(_APP_ARMOR):
            text = "may not remove or update AppArmor annotations"
            errors.append(forbidden(f"metadata.annotations[{key}]", text))
        if key == MIRROR:
            text = "may not remove or update mirror pod annotation"
            errors.append(forbidden(f"metadata.annotations[{key}]", text))
    for key in new:
        if key in before:
            continue
        if key.startswith(_APP_ARMOR):
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add mirror pod annotation"))
    return errors + validate_pod_annotations(new, pod.get("spec") or {}, "metadata.annotations")


def _validate_container_changes(
    new: Sequence[Json], old: Sequence[Json], field: str
) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(field, "pod updates may not add or remove containers")], True
    errors = [
        required(f"{field}[{index}].image")
        for index, container in enumerate(new)
        if not container.get("image")
    ]
    return errors + validate_image_padding(new, field), False


def validate_spec_changes(spec: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("containers", "initContainers"):
        found, stop = _validate_container_changes(spec.get(key) or (), old.get(key) or (), f"spec.{key}")
        errors += found
        if stop:
            return errors
    deadline, before = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if deadline is not None:
        if not 0 <= deadline <= MAX_INT32:
            return [*errors, invalid(path, deadline, range_error(0, MAX_INT32))]
        if before is not None and before < deadline:
            return [*errors, invalid(path, deadline, "must be less than or equal to previous value")]
    elif before is not None:
        errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
    errors += _validate_toleration_changes(spec.get("tolerations") or (), old.get("tolerations") or ())
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if (name := gate.get("name")) not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    if spec == old or same(spec, old):
        return errors
    changed = dict(spec)
    for key in ("containers", "initContainers"):
        if spec.get(key):
            changed[key] = [
                {**container, "image": was.get("image")}
                for container, was in zip(spec[key], old[key], strict=True)
            ]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        changed[key] = old.get(key)
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and changed.get("terminationGracePeriodSeconds") == 1:
        changed["terminationGracePeriodSeconds"] = grace
    if old.get("schedulingGates"):
        errors += _validate_gated_changes(changed, old)
    if not same(changed, old):
        changes = internal_diff("PodSpec", old, changed)
        text = f"pod updates may not change fields other than {UPDATABLE}\n{changes}"
        errors.append(forbidden("spec", text))
    return errors


def _validate_toleration_changes(
    new: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]]
) -> list[FieldError]:
    if new == old:
        return validate_tolerations(new, "spec.tolerations")
    if not {_but_seconds(item) for item in old} <= {_but_seconds(item) for item in new}:
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return validate_tolerations(new, "spec.tolerations")


def _but_seconds(toleration: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    """What of a toleration may not change; a field that is empty is as good as absent."""
    return frozenset(
        (key, value) for key, value in toleration.items() if value and key != "tolerationSeconds"
    )


_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _validate_gated_changes(changed: Json, old: Json) -> list[FieldError]:
    """While gated, node selector and node affinity may be tightened; `changed` loses what is allowed."""
    errors: list[FieldError] = []
    selector, before = changed.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if selector != before:
        if any(selector.get(key) != value for key, value in before.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid_json("spec.nodeSelector", selector or None, text))
        changed["nodeSelector"] = before
    affinity: Json = changed.get("affinity") or {}
    old_affinity: Json = old.get("affinity") or {}
    node, was = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if not same(node, was):
        errors += _validate_node_affinity_change(node or {}, was or {})
        changed["affinity"] = {**affinity, "nodeAffinity": was}
        if not affinity.get("podAffinity") and not affinity.get("podAntiAffinity") and not old_affinity:
            changed["affinity"] = None
    return errors


def _validate_node_affinity_change(node: Json, was: Json) -> list[FieldError]:
    path = f"spec.affinity.nodeAffinity.{_TERMS}.nodeSelectorTerms"
    old_terms = (was.get(_TERMS) or {}).get("nodeSelectorTerms") or []
    terms = (node.get(_TERMS) or {}).get("nodeSelectorTerms") or []
    if not was.get(_TERMS) or not old_terms:
        return []
    if len(terms) != len(old_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        shown = [internal_form("NodeSelectorTerm", term) for term in terms]
        return [invalid_json(path, shown or None, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid_json(f"{path}[{index}]", internal_form("NodeSelectorTerm", term), text)
        for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=True))
        if not _only_adds(term, old_term)
    ]


def _only_adds(term: Json, old: Json) -> bool:
    keys = ("matchExpressions", "matchFields")
    if not any(old.get(key) for key in keys):
        return not any(term.get(key) for key in keys)
    for key in keys:
        before = old.get(key) or []
        if before and not same((term.get(key) or [])[: len(before)], before):
            return False
    return True
