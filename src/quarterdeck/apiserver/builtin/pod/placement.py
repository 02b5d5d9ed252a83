"""Where a pod may run: node selectors, affinity, tolerations, topology spread, scheduling gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.metadata import (
    label_errors,
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_label_selector,
)
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_BOTH: Final = "exists in both matchLabelKeys and labelSelector"


def _keys(key: str, field: str) -> list[FieldError]:
    return [invalid(field, key, text) for text in qualified_name_errors(key)]


def validate_node_selector(selector: Mapping[str, Any], field: str) -> list[FieldError]:
    """Node selector terms, of required node affinity or of a volume."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += _validate_node_term(term, f"{field}.nodeSelectorTerms[{index}]")
    return errors


def _validate_node_term(term: Mapping[str, Any], field: str, *, any_values: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        errors += _validate_node_expression(
            requirement, f"{field}.matchExpressions[{index}]", any_values=any_values
        )
    for index, requirement in enumerate(term.get("matchFields") or ()):
        errors += _validate_node_field(requirement, f"{field}.matchFields[{index}]")
    return errors


def _validate_node_expression(
    requirement: Mapping[str, Any], field: str, *, any_values: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    operator = requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{field}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{field}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{field}.values", text))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    errors += _keys(requirement.get("key") or "", f"{field}.key")
    if not any_values:
        for index, value in enumerate(values):
            errors += [invalid(f"{field}.values[{index}]", value, text) for text in label_value_errors(value)]
    return errors


def _validate_node_field(requirement: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator = requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{field}.values", text))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key") or ""
    if key != "metadata.name":
        errors.append(invalid(f"{field}.key", key, "not a valid field selector key"))
    else:
        for index, value in enumerate(values):
            errors += [invalid(f"{field}.values[{index}]", value, text) for text in subdomain_errors(value)]
    return errors


def validate_affinity(affinity: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if node := affinity.get("nodeAffinity"):
        path = f"{field}.nodeAffinity"
        if (needed := node.get(_REQUIRED)) is not None:
            errors += validate_node_selector(needed, f"{path}.{_REQUIRED}")
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            at = f"{path}.{_PREFERRED}[{index}]"
            errors += _validate_weight(term, at)
            errors += _validate_node_term(term.get("preference") or {}, f"{at}.preference", any_values=True)
    for key in ("podAffinity", "podAntiAffinity"):
        if pod := affinity.get(key):
            path = f"{field}.{key}"
            for index, term in enumerate(pod.get(_REQUIRED) or ()):
                errors += _validate_pod_term(term, f"{path}.{_REQUIRED}[{index}]")
            for index, weighted in enumerate(pod.get(_PREFERRED) or ()):
                at = f"{path}.{_PREFERRED}[{index}]"
                errors += _validate_weight(weighted, at)
                term = weighted.get("podAffinityTerm") or {}
                errors += _validate_pod_term(term, f"{at}.podAffinityTerm")
    return errors


def _validate_weight(term: Mapping[str, Any], field: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    if 1 <= weight <= 100:
        return []
    return [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Mapping[str, Any], field: str) -> list[FieldError]:
    selector = term.get("labelSelector")
    errors = validate_label_selector(selector, f"{field}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += [invalid(f"{field}.namespace", name, text) for text in label_errors(name)]
    errors += _validate_label_keys(term, field)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    return errors + _keys(key, f"{field}.topologyKey")


def _validate_label_keys(term: Mapping[str, Any], field: str) -> list[FieldError]:
    """matchLabelKeys and mismatchLabelKeys of an affinity term or a spread constraint."""
    matching = term.get("matchLabelKeys") or ()
    mismatching = term.get("mismatchLabelKeys") or ()
    if not matching and not mismatching:
        return []
    errors: list[FieldError] = []
    selector = term.get("labelSelector")
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if not keys:
            continue
        if selector is None:
            text = "must not be specified when labelSelector is not set"
            errors.append(forbidden(f"{field}.{name}", text))
            continue
        for index, key in enumerate(keys):
            errors += _keys(key, f"{field}.{name}[{index}]")
    if selector is not None:
        position = {key: index for index, key in enumerate(matching)}
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in position and key in seen:
                errors.append(invalid(f"{field}[{position[key]}]", key, _BOTH))
            seen.add(key)
    for index, key in enumerate(matching):
        if key in mismatching:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{field}.matchLabelKeys[{index}]", key, text))
    return errors


def merge_label_keys(spec: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """At creation: turn matchLabelKeys and mismatchLabelKeys into expressions of the selectors."""
    affinity = spec.get("affinity")
    if affinity:
        for key in ("podAffinity", "podAntiAffinity"):
            if pod := affinity.get(key):
                for weighted in pod.get(_PREFERRED) or ():
                    _merge_keys(weighted.get("podAffinityTerm") or {}, labels)
                for term in pod.get(_REQUIRED) or ():
                    _merge_keys(term, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)


def _merge_keys(term: Json, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(name) or ():
            if key in labels:
                expressions = selector.get("matchExpressions")
                if expressions is None:
                    expressions = selector["matchExpressions"] = []
                expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


def _positive(value: int | None, field: str) -> list[FieldError]:
    return [invalid(field, value or 0, "must be greater than zero")] if (value or 0) <= 0 else []


def validate_spread(constraints: Sequence[Mapping[str, Any]], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[tuple[str, str]] = [
        (item.get("topologyKey") or "", item.get("whenUnsatisfiable") or "") for item in constraints
    ]
    for index, constraint in enumerate(constraints):
        path = f"{field}[{index}]"
        errors += _positive(constraint.get("maxSkew"), f"{path}.maxSkew")
        key, action = seen[index]
        if not key:
            errors.append(required(f"{path}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            where = f"{path}.whenUnsatisfiable"
            errors.append(not_supported(where, action, ("DoNotSchedule", "ScheduleAnyway")))
        if seen[index] in seen[index + 1 :]:
            where = f"{path}.{{topologyKey, whenUnsatisfiable}}"
            errors.append(duplicate(where, f"{{{key}, {action}}}"))
        if (domains := constraint.get("minDomains")) is not None:
            errors += _positive(domains, f"{path}.minDomains")
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                errors.append(invalid(f"{path}.minDomains", domains, text))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in ("Honor", "Ignore"):
                errors.append(not_supported(f"{path}.{name}", policy, ("Honor", "Ignore")))
        errors += _validate_label_keys(constraint, path)
        errors += validate_label_selector(constraint.get("labelSelector"), f"{path}.labelSelector")
    return errors


def validate_tolerations(tolerations: Sequence[Mapping[str, Any]], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        get = toleration.get
        key, operator, effect = get("key") or "", get("operator") or "", get("effect") or ""
        plain = operator == "Exists" and effect in TAINT_EFFECTS and not get("value")
        if plain and (effect == "NoExecute" or get("tolerationSeconds") is None):
            if key:  # the usual form: only the key can be wrong
                errors += _keys(key, f"{field}[{index}].key")
            continue
        path = f"{field}[{index}]"
        if key:
            errors += _keys(key, f"{path}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{path}.operator", operator, text))
        if get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}.effect", effect, text))
        value = get("value") or ""
        if operator in ("Equal", ""):
            if found := label_value_errors(value):
                errors.append(invalid(f"{path}.operator", value, ";".join(found)))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                errors.append(invalid(f"{path}.operator", value, text))
        elif operator in ("Lt", "Gt"):
            allowed: tuple[str, ...] = ("Equal", "Exists", "Lt", "Gt")
            errors.append(not_supported(f"{path}.operator", operator, allowed))
        else:
            errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
    return errors


def validate_gates(gates: Sequence[Mapping[str, Any]], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        errors += _keys(name, f"{field}[{index}]")
        if name in seen:
            errors.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
    return errors
