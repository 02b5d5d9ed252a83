"""Validating- and MutatingAdmissionPolicy and their bindings; expressions are compiled elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, BuiltinStrategy, section
from quarterdeck.apiserver.metadata import (
    dns1035_errors,
    invalid_json,
    path_segment_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

from .webhookconfig import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    ConfigurationStrategy,
    default_match,
    validate_match_conditions,
    validate_rule,
)

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
#: words of CEL that cannot name a variable
_RESERVED: Final = frozenset(
    re.split(
        " ",
        "false in null true as break const continue else for function if import let loop package namespace "
        "return var void while",
    )
)
_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch


class _PolicyStrategy(ConfigurationStrategy):
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        if (constraints := spec.get("matchConstraints")) is not None:
            _default_resources(constraints)


def _default_resources(resources: Json) -> None:
    default_match(resources)
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(key) or ():
            if rule.get("scope") is None:
                rule["scope"] = "*"


class ValidatingAdmissionPolicyStrategy(_PolicyStrategy):
    has_status = True

    def default(self, obj: Json) -> None:
        super().default(obj)
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def structure_errors(self, obj: Json) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _validate_policy(spec)
        validations = spec.get("validations") or ()
        annotations = spec.get("auditAnnotations") or []
        if not validations and not annotations:
            text = "validations or auditAnnotations must contain at least one item"
            return [*errors, required("spec.validations", text), required("spec.auditAnnotations", text)]
        for index, validation in enumerate(validations):
            errors += _validate_validation(validation, f"spec.validations[{index}]")
        if len(annotations) > 20:
            text = "must not have more than 20 auditAnnotations"
            errors.append(invalid_json("spec.auditAnnotations", annotations, text))
        keys: set[str] = set()
        name = (obj.get("metadata") or {}).get("name") or ""
        for index, annotation in enumerate(annotations):
            path = f"spec.auditAnnotations[{index}]"
            key = annotation.get("key") or ""
            if name:
                full = f"{name}/{key}"
                errors += [invalid(f"{path}.key", full, text) for text in qualified_name_errors(full)]
            if not (annotation.get("valueExpression") or "").strip():
                text = "valueExpression is not specified"
                errors.append(required(f"{path}.valueExpression", text))
            if key in keys:
                errors.append(duplicate(f"{path}.key", key))
            keys.add(key)
        return errors


def _validate_policy(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("failurePolicy")
    if policy is None:
        errors.append(required("spec.failurePolicy"))
    elif policy not in FAILURE_POLICIES:
        errors.append(not_supported("spec.failurePolicy", policy, FAILURE_POLICIES))
    if (kind := spec.get("paramKind")) is not None:
        errors += _validate_param_kind(kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    path = "spec.matchConstraints"
    if constraints is None:
        errors.append(required(path))
    else:
        errors += _validate_resources(constraints, path)
        if not constraints.get("resourceRules"):
            errors.append(required(f"{path}.resourceRules"))
    errors += validate_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions")
    for index, variable in enumerate(spec.get("variables") or ()):
        errors += _validate_variable(variable, f"spec.variables[{index}]")
    return errors


def _validate_param_kind(kind: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    version: str = kind.get("apiVersion") or ""
    path = f"{field}.apiVersion"
    if not version:
        errors.append(required(path))
    elif version.count("/") > 1:
        errors.append(invalid(path, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, name = version.rpartition("/")
        if group and (found := subdomain_errors(group)):
            errors.append(invalid(path, group, ",".join(found)))
        if not name:
            errors.append(invalid(path, version, "version must be specified"))
        elif found := dns1035_errors(name):
            errors.append(invalid(path, name, ",".join(found)))
    name = kind.get("kind") or ""
    if not name:
        errors.append(required(f"{field}.kind"))
    elif found := dns1035_errors(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(found)}"
        errors.append(invalid(f"{field}.kind", name, text))
    return errors


def _validate_resources(resources: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = resources.get("matchPolicy")
    if policy is None:
        errors.append(required(f"{field}.matchPolicy"))
    elif policy not in MATCH_POLICIES:
        errors.append(not_supported(f"{field}.matchPolicy", policy, MATCH_POLICIES))
    for key in ("namespaceSelector", "objectSelector"):
        if resources.get(key) is None:
            errors.append(required(f"{field}.{key}"))
        else:
            errors += validate_label_selector(resources[key], f"{field}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(key) or ()):
            path = f"{field}.{key}[{index}]"
            names: set[str] = set()
            for position, name in enumerate(rule.get("resourceNames") or ()):
                at = f"{path}.resourceNames[{position}]"
                errors += [invalid(at, name, text) for text in path_segment_errors(name)]
                if name in names:
                    errors.append(duplicate(at, name))
                names.add(name)
            errors += validate_rule(rule, path)
    return errors


def _validate_variable(variable: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = variable.get("name") or ""
    if not name.strip():
        errors.append(required(f"{field}.name", "name is not specified"))
    elif not _is_identifier(name) or name in _RESERVED:
        errors.append(invalid(f"{field}.name", name, "must be a valid CEL identifier"))
    if not (variable.get("expression") or "").strip():
        errors.append(required(f"{field}.expression", "expression is not specified"))
    return errors


def _validate_validation(validation: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not (validation.get("expression") or "").strip():
        errors.append(required(f"{field}.expression", "expression is not specified"))
    for key in ("messageExpression", "message"):
        text = validation.get(key) or ""
        if text and not text.strip():
            errors.append(invalid(f"{field}.{key}", text, "must be non-empty if specified"))
        elif key == "message" and "\n" in text.strip():
            errors.append(invalid(f"{field}.message", text, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{field}.reason", reason, _REASONS))
    return errors


class MutatingAdmissionPolicyStrategy(_PolicyStrategy):
    def structure_errors(self, obj: Json) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _validate_policy(spec)
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        errors += [
            not_supported("spec.matchConstraints.resourceRules.operations", operation, _MUTATING_OPERATIONS)
            for rule in rules
            for operation in rule.get("operations") or ()
            if operation not in _MUTATING_OPERATIONS
        ]
        mutations = spec.get("mutations") or ()
        if not mutations:
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        for index, mutation in enumerate(mutations):
            errors += _validate_mutation(mutation, f"spec.mutations[{index}]")
        policy = spec.get("reinvocationPolicy") or ""
        path = "spec.reinvocationPolicy"
        if not policy:
            errors.append(required(path))
        elif policy not in REINVOCATION_POLICIES:
            errors.append(not_supported(path, policy, REINVOCATION_POLICIES))
        return errors


def _validate_mutation(mutation: Mapping[str, Any], field: str) -> list[FieldError]:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{field}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported(f"{field}.patchType", kind, _PATCH_TYPES)]
    own, other = ("jsonPatch", "applyConfiguration")
    if kind == "ApplyConfiguration":
        own, other = other, own
    errors: list[FieldError] = []
    patch = mutation.get(own)
    if patch is None:
        errors.append(required(f"{field}.{own}", f"must be specified when patchType is {kind}"))
    elif not (patch.get("expression") or "").strip():
        errors.append(required(f"{field}.{own}.expression"))
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(invalid(f"{field}.{other}", f"{{{other}}}", text))
    return errors


class MutatingAdmissionPolicyBindingStrategy(BuiltinStrategy):
    has_generation = True
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        if (resources := section(obj, "spec").get("matchResources")) is not None:
            _default_resources(resources)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        if name := spec.get("policyName"):
            errors += [invalid("spec.policyName", name, text) for text in subdomain_errors(name)]
        else:
            errors.append(required("spec.policyName"))
        if (reference := spec.get("paramRef")) is not None:
            errors += _validate_param_ref(reference, "spec.paramRef")
        if (resources := spec.get("matchResources")) is not None:
            errors += _validate_resources(resources, "spec.matchResources")
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


class ValidatingAdmissionPolicyBindingStrategy(MutatingAdmissionPolicyBindingStrategy):
    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors = super().validate_create(obj, ctx)
        actions = (obj.get("spec") or {}).get("validationActions") or []
        return errors + _validate_actions(actions, "spec.validationActions")


def _validate_actions(actions: Sequence[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{field}[{index}]", action, _ACTIONS))
        if action in seen:
            errors.append(duplicate(f"{field}[{index}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information "
            "in the API response and headers serves no purpose)"
        )
        errors.append(invalid_json(field, list(actions), text))
    if not seen:
        errors.append(required(field, "at least one validation action is required"))
    return errors


def _validate_param_ref(reference: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, selector = reference.get("name") or "", reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors += [invalid(f"{field}.name", name, text) for text in path_segment_errors(name)]
        if selector is not None:
            errors.append(forbidden(f"{field}.name", exclusive))
    if selector is not None:
        errors += validate_label_selector(selector, f"{field}.selector")
        if name:
            errors.append(forbidden(f"{field}.selector", exclusive))
    if not name and selector is None:
        errors.append(required(field, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    path = f"{field}.parameterNotFoundAction"
    if not action:
        errors.append(required(path))
    elif action not in ("Deny", "Allow"):
        errors.append(not_supported(path, action, ("Deny", "Allow")))
    return errors
