"""What can be wrong with rules, selectors and match conditions of webhooks and policies.

The order and the texts of the errors are upstream's; objects are already defaulted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.cel.types import BOOL
from quarterdeck.apiserver.fielderror import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from quarterdeck.apiserver.metadata import (
    path_segment_errors,
    qualified_name_errors,
    validate_label_selector,
)

from .expression import Scope, compile_expression

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MAX_CONDITIONS: Final = 64

Document = Mapping[str, Any]


def rule_errors(rule: Document, path: str) -> list[FieldError]:
    """A RuleWithOperations."""
    errors: list[FieldError] = []
    operations: Sequence[str] = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        errors.append(
            invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
        )
    errors += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    errors += _names_errors(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions: Sequence[str] = rule.get("apiVersions") or []
    errors += _names_errors(versions, f"{path}.apiVersions", "API versions")
    errors += [
        required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version
    ]
    errors += _resources_errors(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))
    return errors


def _names_errors(names: Sequence[str], path: str, what: str) -> list[FieldError]:
    if not names:
        return [required(path)]
    if len(names) > 1 and "*" in names:
        return [invalid(path, names, f"if '*' is present, must not specify other {what}")]
    return []


def _resources_errors(resources: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not resources:
        errors.append(required(path))
    with_all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    has_plain_resource = False
    for index, text in enumerate(resources):
        if not text:
            errors.append(required(f"{path}[{index}]"))
            continue
        name, slash, sub = text.partition("/")
        if not slash:
            has_plain_resource = text != "*"
            continue
        if name in with_all_subresources:
            errors.append(
                invalid(f"{path}[{index}]", text, f"if '{name}/*' is present, must not specify {text}")
            )
        if sub in of_all_resources:
            errors.append(
                invalid(f"{path}[{index}]", text, f"if '*/{sub}' is present, must not specify {text}")
            )
        if sub == "*":
            with_all_subresources.add(name)
        if name == "*":
            of_all_resources.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and has_plain_resource:
        errors.append(
            invalid(
                path,
                resources,
                "if '*' is present, must not specify other resources without subresources",
            )
        )
    return errors


def match_resources_errors(match: Document, path: str) -> list[FieldError]:
    """A MatchResources (`matchConstraints`, `matchResources`)."""
    errors = choice_errors(match.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    for key in ("namespaceSelector", "objectSelector"):
        if match.get(key) is None:
            errors.append(required(f"{path}.{key}"))
        else:
            errors += validate_label_selector(match[key], f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or []):
            errors += _named_rule_errors(rule, f"{path}.{key}[{index}]")
    return errors


def _named_rule_errors(rule: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: Sequence[str] = rule.get("resourceNames") or []
    for index, name in enumerate(names):
        field = f"{path}.resourceNames[{index}]"
        errors += [invalid(field, name, text) for text in path_segment_errors(name)]
        if name in names[:index]:
            errors.append(duplicate(field, name))
    return errors + rule_errors(rule, path)


def choice_errors(value: str | None, allowed: Sequence[str], path: str) -> list[FieldError]:
    """A required field with a closed set of values."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def condition_errors(
    conditions: Sequence[Document], path: str, *, has_params: bool = False
) -> list[FieldError]:
    """`matchConditions`, compiled."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        field = f"{path}[{index}]"
        source: str = (condition.get("expression") or "").strip()
        if not source:
            errors.append(required(f"{field}.expression"))
        else:
            scope = Scope(params=has_params, authorizer=True)
            compiled = compile_expression(source, scope, (BOOL,))
            if compiled.error:
                errors.append(invalid(f"{field}.expression", source, compiled.error))
        name: str = condition.get("name") or ""
        if not name:
            errors.append(required(f"{field}.name"))
            continue
        errors += [invalid(f"{field}.name", name, text) for text in qualified_name_errors(name)]
        if name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen.add(name)
    return errors
