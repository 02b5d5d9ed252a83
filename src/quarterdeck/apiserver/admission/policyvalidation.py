"""What can be wrong with admission policies and their bindings, expressions included.

`policy_errors` is what the write pipeline asks. Names and metadata are checked elsewhere, like
those of any object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.cel.types import BOOL, STRING, CelType
from quarterdeck.apiserver.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from quarterdeck.apiserver.metadata import (
    dns1035_errors,
    path_segment_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_label_selector,
)

from .expression import JSON_PATCHES, OBJECT, TEXT_OR_NULL, Composition, Scope, compile_expression
from .rulevalidation import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    choice_errors,
    condition_errors,
    match_resources_errors,
)

Document = Mapping[str, Any]

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_MAX_AUDIT_ANNOTATIONS: Final = 20
_MAX_VALUE_EXPRESSION: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


def policy_errors(obj: Document, old: Document | None = None) -> list[FieldError]:
    """Everything wrong with the spec of a policy or binding, or the conditions of a webhook configuration.

    On update, unchanged match conditions are not looked at again.
    """
    check = _CHECKS.get(obj.get("kind", ""))
    return check(obj, old) if check is not None else []


# -- policies ------------------------------------------------------------------------------------


def _spec_of(obj: Document | None) -> Document:
    spec: Document = (obj or {}).get("spec") or {}
    return spec


def _common_errors(spec: Document, old: Document | None) -> list[FieldError]:
    errors = choice_errors(spec.get("failurePolicy"), FAILURE_POLICIES, "spec.failurePolicy")
    kind = spec.get("paramKind")
    if kind is not None:
        errors += _param_kind_errors(kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    return errors


def _conditions_of_policy(spec: Document, old: Document | None) -> list[FieldError]:
    before = _spec_of(old)
    unchanged = old is not None and all(
        (spec.get(key) or None) == (before.get(key) or None) for key in ("paramKind", "matchConditions")
    )
    if unchanged:
        return []
    return condition_errors(
        spec.get("matchConditions") or [],
        "spec.matchConditions",
        has_params=spec.get("paramKind") is not None,
    )


def _param_kind_errors(kind: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version: str = kind.get("apiVersion") or ""
    if not api_version:
        errors.append(required(f"{path}.apiVersion"))
    elif api_version.count("/") > 1:
        errors.append(
            invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
        )
    else:
        group, _, version = api_version.rpartition("/")
        if group and (problems := subdomain_errors(group)):
            errors.append(invalid(f"{path}.apiVersion", group, ",".join(problems)))
        if not version:
            errors.append(invalid(f"{path}.apiVersion", api_version, "version must be specified"))
        elif problems := dns1035_errors(version):
            errors.append(invalid(f"{path}.apiVersion", version, ",".join(problems)))
    name: str = kind.get("kind") or ""
    if not name:
        errors.append(required(f"{path}.kind"))
    elif problems := dns1035_errors(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


def _variable_errors(
    variable: Document, composition: Composition, path: str, scope: Scope
) -> list[FieldError]:
    errors: list[FieldError] = []
    name: str = variable.get("name") or ""
    if not name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    source: str = variable.get("expression") or ""
    if not source.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
        return errors
    compiled = composition.add(name, source, scope)
    if compiled.error:
        errors.append(invalid(f"{path}.expression", source, compiled.error))
    return errors


def _expression_errors(
    source: str, path: str, scope: Scope, returns: Sequence[CelType], composition: Composition | None
) -> list[FieldError]:
    compiled = compile_expression(source, scope, returns, composition)
    return [invalid(path, source, compiled.error)] if compiled.error else []


def _validating_policy_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    errors = _common_errors(spec, old) + _conditions_of_policy(spec, old)
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    variables: Sequence[Document] = spec.get("variables") or []
    composition = Composition([], scope) if variables else None
    if composition is not None:
        for index, variable in enumerate(variables):
            errors += _variable_errors(variable, composition, f"spec.variables[{index}]", scope)
    validations: Sequence[Document] = spec.get("validations") or []
    annotations: Sequence[Document] = spec.get("auditAnnotations") or []
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        return [*errors, required("spec.validations", text), required("spec.auditAnnotations", text)]
    for index, validation in enumerate(validations):
        errors += _validation_errors(validation, f"spec.validations[{index}]", scope, composition)
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        text = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, text))
    policy: str = (obj.get("metadata") or {}).get("name") or ""
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        errors += _annotation_errors(annotation, policy, path, scope, composition)
        key = annotation.get("key") or ""
        if key in keys:
            errors.append(duplicate(f"{path}.key", key))
        keys.add(key)
    return errors


def _validation_errors(
    validation: Document, path: str, scope: Scope, composition: Composition | None
) -> list[FieldError]:
    errors: list[FieldError] = []
    source: str = validation.get("expression") or ""
    if not source.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += _expression_errors(source, f"{path}.expression", scope, (BOOL,), composition)
    text: str = validation.get("messageExpression") or ""
    if text and not text.strip():
        errors.append(invalid(f"{path}.messageExpression", text, "must be non-empty if specified"))
    elif text:
        narrow = scope._replace(authorizer=False)
        errors += _expression_errors(text, f"{path}.messageExpression", narrow, (STRING,), composition)
    message: str = validation.get("message") or ""
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    return errors


def _annotation_errors(
    annotation: Document, policy: str, path: str, scope: Scope, composition: Composition | None
) -> list[FieldError]:
    errors: list[FieldError] = []
    key: str = annotation.get("key") or ""
    if policy:
        qualified = f"{policy}/{key}"
        errors += [invalid(f"{path}.key", qualified, text) for text in qualified_name_errors(qualified)]
    else:
        errors.append(invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
    field = f"{path}.valueExpression"
    given: str = annotation.get("valueExpression") or ""
    source = given.strip()
    if not source:
        errors.append(required(field, "valueExpression is not specified"))
    elif len(source.encode()) > _MAX_VALUE_EXPRESSION:
        errors.append(required(field, f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length"))
    else:
        compiled = compile_expression(source, scope, TEXT_OR_NULL, composition)
        if compiled.error:
            errors.append(invalid(field, given, compiled.error))
    return errors


def _mutating_policy_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    errors = _common_errors(spec, old)
    errors += _operation_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    errors += _conditions_of_policy(spec, old)
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    composition = Composition([], scope)
    for index, variable in enumerate(spec.get("variables") or []):
        errors += _variable_errors(variable, composition, f"spec.variables[{index}]", scope)
    mutations: Sequence[Document] = spec.get("mutations") or []
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        errors += _mutation_errors(mutation, f"spec.mutations[{index}]", scope, composition)
    return errors + choice_errors(
        spec.get("reinvocationPolicy"), REINVOCATION_POLICIES, "spec.reinvocationPolicy"
    )


def _operation_errors(match: Document | None, path: str) -> list[FieldError]:
    """Only creates and updates can be mutated."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)
        for rule in (match or {}).get("resourceRules") or []
        for operation in rule.get("operations") or []
        if operation not in _MUTATING_OPERATIONS
    ]


def _mutation_errors(
    mutation: Document, path: str, scope: Scope, composition: Composition
) -> list[FieldError]:
    kind = mutation.get("patchType") or ""
    if kind not in _PATCH_TYPES:
        return choice_errors(kind, _PATCH_TYPES, f"{path}.patchType")
    own, other = ("jsonPatch", "applyConfiguration")
    if kind == "ApplyConfiguration":
        own, other = other, own
    errors: list[FieldError] = []
    if mutation.get(own) is None:
        errors.append(required(f"{path}.{own}", f"must be specified when patchType is {kind}"))
    else:
        source: str = (mutation[own].get("expression") or "").strip()
        field = f"{path}.{own}.expression"
        if not source:
            errors.append(required(field))
        else:
            returns = (JSON_PATCHES,) if kind == "JSONPatch" else (OBJECT,)
            patches = scope._replace(patches=True)
            errors += _expression_errors(source, field, patches, returns, composition)
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors


# -- bindings ------------------------------------------------------------------------------------


def _binding_errors(spec: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    policy: str = spec.get("policyName") or ""
    if not policy:
        errors.append(required("spec.policyName"))
    else:
        errors += [invalid("spec.policyName", policy, text) for text in subdomain_errors(policy)]
    reference = spec.get("paramRef")
    if reference is not None:
        errors += _param_ref_errors(reference, "spec.paramRef")
    match = spec.get("matchResources")
    if match is not None:
        errors += match_resources_errors(match, "spec.matchResources")
    return errors


def _param_ref_errors(reference: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name: str = reference.get("name") or ""
    selector = reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors += [invalid(f"{path}.name", name, text) for text in path_segment_errors(name)]
        if selector is not None:
            errors.append(forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
        if name:
            errors.append(forbidden(f"{path}.selector", exclusive))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    return errors + choice_errors(
        reference.get("parameterNotFoundAction"), ("Deny", "Allow"), f"{path}.parameterNotFoundAction"
    )


def _validating_binding_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    path = "spec.validationActions"
    errors = _binding_errors(spec)
    actions: Sequence[str] = spec.get("validationActions") or []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def _mutating_binding_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    return _binding_errors(spec) + _operation_errors(spec.get("matchResources"), "spec.matchResources")


# -- webhook configurations ----------------------------------------------------------------------


def _webhook_condition_errors(obj: Document, old: Document | None) -> list[FieldError]:
    hooks: Sequence[Document] = obj.get("webhooks") or []
    before: Sequence[Document] = (old or {}).get("webhooks") or []
    if old is not None and [hook.get("matchConditions") or [] for hook in hooks] == [
        hook.get("matchConditions") or [] for hook in before
    ]:
        return []
    errors: list[FieldError] = []
    for index, hook in enumerate(hooks):
        errors += condition_errors(hook.get("matchConditions") or [], f"webhooks[{index}].matchConditions")
    return errors


_CHECKS: Final[Mapping[str, Callable[[Document, Document | None], list[FieldError]]]] = {
    "ValidatingAdmissionPolicy": _validating_policy_errors,
    "ValidatingAdmissionPolicyBinding": _validating_binding_errors,
    "MutatingAdmissionPolicy": _mutating_policy_errors,
    "MutatingAdmissionPolicyBinding": _mutating_binding_errors,
    "ValidatingWebhookConfiguration": _webhook_condition_errors,
    "MutatingWebhookConfiguration": _webhook_condition_errors,
}
