"""Compiling the expressions of policies and match conditions when they are written.

`policy_errors` is what the write pipeline asks after the kind's own rules, which look at everything
but the expressions. A blank expression is theirs to report, so it is passed over here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.cel.type.celtype import BOOL, STRING, CelType
from quarterdeck.wire.fielderror import FieldError, invalid

from .policyexpression import JSON_PATCHES, OBJECT, TEXT_OR_NULL, Composition, Scope, compile_expression

Document = Mapping[str, Any]


def policy_errors(obj: Document, old: Document | None = None) -> list[FieldError]:
    """The expressions of a policy or webhook configuration that do not compile.

    On update, match conditions that did not change are not looked at again.
    """
    check = _CHECKS.get(obj.get("kind", ""))
    return check(obj, old) if check is not None else []


def _spec_of(obj: Document | None) -> Document:
    spec: Document = (obj or {}).get("spec") or {}
    return spec


def _compile(
    source: str, path: str, scope: Scope, returns: Sequence[CelType], composition: Composition | None = None
) -> list[FieldError]:
    if not source.strip():
        return []
    compiled = compile_expression(source, scope, returns, composition)
    return [invalid(path, source, compiled.error)] if compiled.error else []


def _condition_errors(conditions: Sequence[Document], path: str, *, has_params: bool) -> list[FieldError]:
    scope = Scope(params=has_params, authorizer=True)
    return [
        error
        for index, condition in enumerate(conditions)
        for error in _compile(
            (condition.get("expression") or "").strip(), f"{path}[{index}].expression", scope, (BOOL,)
        )
    ]


def _conditions_of_policy(spec: Document, old: Document | None) -> list[FieldError]:
    before = _spec_of(old)
    keys = ("paramKind", "matchConditions")
    if old is not None and all((spec.get(key) or None) == (before.get(key) or None) for key in keys):
        return []
    return _condition_errors(
        spec.get("matchConditions") or [],
        "spec.matchConditions",
        has_params=spec.get("paramKind") is not None,
    )


def _variable_errors(spec: Document, composition: Composition, scope: Scope) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(spec.get("variables") or []):
        source: str = variable.get("expression") or ""
        if not source.strip():
            continue
        compiled = composition.add(variable.get("name") or "", source, scope)
        if compiled.error:
            errors.append(invalid(f"spec.variables[{index}].expression", source, compiled.error))
    return errors


def _validating_policy_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    errors = _conditions_of_policy(spec, old)
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    composition = Composition([], scope) if spec.get("variables") else None
    if composition is not None:
        errors += _variable_errors(spec, composition, scope)
    narrow = scope._replace(authorizer=False)
    for index, validation in enumerate(spec.get("validations") or []):
        path = f"spec.validations[{index}]"
        source, message = validation.get("expression") or "", validation.get("messageExpression") or ""
        errors += _compile(source, f"{path}.expression", scope, (BOOL,), composition)
        errors += _compile(message, f"{path}.messageExpression", narrow, (STRING,), composition)
    for index, annotation in enumerate(spec.get("auditAnnotations") or []):
        source = annotation.get("valueExpression") or ""
        path = f"spec.auditAnnotations[{index}].valueExpression"
        errors += _compile(source, path, scope, TEXT_OR_NULL, composition)
    return errors


def _mutating_policy_errors(obj: Document, old: Document | None) -> list[FieldError]:
    spec = _spec_of(obj)
    errors = _conditions_of_policy(spec, old)
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    composition = Composition([], scope)
    errors += _variable_errors(spec, composition, scope)
    patches = scope._replace(patches=True)
    for index, mutation in enumerate(spec.get("mutations") or []):
        is_json_patch = mutation.get("patchType") == "JSONPatch"
        key = "jsonPatch" if is_json_patch else "applyConfiguration"
        source = ((mutation.get(key) or {}).get("expression") or "").strip()
        path = f"spec.mutations[{index}].{key}.expression"
        errors += _compile(source, path, patches, (JSON_PATCHES if is_json_patch else OBJECT,), composition)
    return errors


def _webhook_errors(obj: Document, old: Document | None) -> list[FieldError]:
    hooks: Sequence[Document] = obj.get("webhooks") or []
    before: Sequence[Document] = (old or {}).get("webhooks") or []
    if old is not None and [hook.get("matchConditions") or [] for hook in hooks] == [
        hook.get("matchConditions") or [] for hook in before
    ]:
        return []
    errors: list[FieldError] = []
    for index, hook in enumerate(hooks):
        path = f"webhooks[{index}].matchConditions"
        errors += _condition_errors(hook.get("matchConditions") or [], path, has_params=False)
    return errors


_CHECKS: Final[Mapping[str, Callable[[Document, Document | None], list[FieldError]]]] = {
    "ValidatingAdmissionPolicy": _validating_policy_errors,
    "MutatingAdmissionPolicy": _mutating_policy_errors,
    "ValidatingWebhookConfiguration": _webhook_errors,
    "MutatingWebhookConfiguration": _webhook_errors,
}
