"""Validating- and MutatingWebhookConfiguration; the rules they share with admission policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import port_errors
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.clientconfig import webhook_url_errors
from quarterdeck.apiserver.metadata import (
    dns1035_errors,
    invalid_json,
    qualified_name_errors,
    subdomain_errors,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, not_supported, required, too_many

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


class ConfigurationStrategy(BuiltinStrategy):
    """Configurations of admission: they have a structure, and expressions that must compile."""

    has_generation = True
    allows_unconditional_update = False

    def structure_errors(self, obj: Json) -> list[FieldError]:
        """Everything but the expressions, except that they are there."""
        return []

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return self.structure_errors(obj) + _expression_errors(obj, None)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.structure_errors(obj) + _expression_errors(obj, old)


def _expression_errors(obj: Json, old: Json | None) -> list[FieldError]:
    # loaded when needed: a server without such configurations never compiles an expression
    from quarterdeck.apiserver.builtin.access.policyvalidation import policy_errors

    return policy_errors(obj, old)


class ValidatingWebhookConfigurationStrategy(ConfigurationStrategy):
    mutating = False

    def default(self, obj: Json) -> None:
        for hook in obj.get("webhooks") or ():
            if hook.get("failurePolicy") is None:
                hook["failurePolicy"] = "Fail"
            default_match(hook)
            if hook.get("timeoutSeconds") is None:
                hook["timeoutSeconds"] = 10
            if self.mutating and hook.get("reinvocationPolicy") is None:
                hook["reinvocationPolicy"] = "Never"
            for rule in hook.get("rules") or ():
                if rule.get("scope") is None:
                    rule["scope"] = "*"
            service = section(hook, "clientConfig").get("service")
            if service is not None and service.get("port") is None:
                service["port"] = 443

    def structure_errors(self, obj: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        names: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            errors += self._validate_hook(hook, path)
            versions = hook.get("admissionReviewVersions") or []
            errors += _validate_review_versions(versions, f"{path}.admissionReviewVersions")
            if name := hook.get("name"):
                if name in names:
                    errors.append(duplicate(f"{path}.name", name))
                names.add(name)
        return errors

    def _validate_hook(self, hook: Json, path: str) -> list[FieldError]:
        get = hook.get
        errors = validate_qualified_domain(get("name") or "", f"{path}.name")
        for index, rule in enumerate(get("rules") or ()):
            errors += validate_rule(rule, f"{path}.rules[{index}]")
        errors += choice(get("failurePolicy"), f"{path}.failurePolicy", FAILURE_POLICIES)
        errors += choice(get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
        if get("sideEffects") is None:
            text = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
            errors.append(required(f"{path}.sideEffects", text))
        errors += choice(get("sideEffects"), f"{path}.sideEffects", _SIDE_EFFECTS)
        timeout = get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            errors.append(invalid(f"{path}.timeoutSeconds", timeout, text))
        for key in ("namespaceSelector", "objectSelector"):
            errors += validate_label_selector(get(key), f"{path}.{key}")
        if self.mutating:
            where = f"{path}.reinvocationPolicy"
            errors += choice(get("reinvocationPolicy"), where, REINVOCATION_POLICIES)
        errors += validate_client_config(get("clientConfig") or {}, f"{path}.clientConfig")
        return errors + validate_match_conditions(get("matchConditions") or (), f"{path}.matchConditions")


class MutatingWebhookConfigurationStrategy(ValidatingWebhookConfigurationStrategy):
    mutating = True


def default_match(obj: Json) -> None:
    """matchPolicy and selectors of a webhook or of a policy's constraints."""
    if obj.get("matchPolicy") is None:
        obj["matchPolicy"] = "Equivalent"
    for key in ("namespaceSelector", "objectSelector"):
        if obj.get(key) is None:
            obj[key] = {}


def choice(value: str | None, field: str, allowed: Sequence[str]) -> list[FieldError]:
    return [] if value is None or value in allowed else [not_supported(field, value, allowed)]


def validate_qualified_domain(name: str, field: str) -> list[FieldError]:
    """A domain of at least three segments."""
    if not name:
        return [required(field)]
    if found := subdomain_errors(name):
        return [invalid(field, name, ",".join(found))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid(field, name, text)]
    return []


def validate_rule(rule: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operations: list[str] = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{field}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        errors.append(invalid_json(f"{field}.operations", operations, text))
    errors += [
        not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for key, name in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values: list[str] = rule.get(key) or []
        if not values:
            errors.append(required(f"{field}.{key}"))
        if len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other {name}"
            errors.append(invalid_json(f"{field}.{key}", values, text))
        if key == "apiVersions":
            errors += [required(f"{field}.{key}[{index}]") for index, item in enumerate(values) if not item]
    errors += _validate_resources(rule.get("resources") or [], f"{field}.resources")
    return errors + choice(rule.get("scope"), f"{field}.scope", _SCOPES)


def _validate_resources(resources: list[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not resources:
        errors.append(required(field))
    with_all: set[str] = set()
    for_all: set[str] = set()
    plain = False
    for index, item in enumerate(resources):
        path = f"{field}[{index}]"
        if not item:
            errors.append(required(path))
            continue
        resource, slash, sub = item.partition("/")
        if not slash:
            plain = item != "*"
            continue
        if resource in with_all:
            text = f"if '{resource}/*' is present, must not specify {item}"
            errors.append(invalid(path, item, text))
        if sub in for_all:
            text = f"if '*/{sub}' is present, must not specify {item}"
            errors.append(invalid(path, item, text))
        if sub == "*":
            with_all.add(resource)
        if resource == "*":
            for_all.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        errors.append(invalid_json(field, resources, text))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid_json(field, resources, text))
    return errors


def _validate_review_versions(versions: list[str], field: str) -> list[FieldError]:
    if not versions:
        return [required(field, "must specify one of v1, v1beta1")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{field}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(f"{field}[{index}]", version, text) for text in dns1035_errors(version)]
    if not seen & {"v1", "v1beta1"}:
        errors.append(invalid_json(field, versions, "must include at least one of v1, v1beta1"))
    return errors


def validate_client_config(config: Mapping[str, Any], field: str) -> list[FieldError]:
    """Where a webhook is called: exactly one of a URL and a Service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None:
        return list(webhook_url_errors(url, f"{field}.url"))
    return _validate_service(service or {}, f"{field}.service")


def _validate_service(service: Mapping[str, Any], field: str) -> list[FieldError]:
    errors = [required(f"{field}.{key}") for key in ("name", "namespace") if not service.get(key)]
    port = service.get("port") or 0
    if found := port_errors(port):
        errors.append(invalid(f"{field}.port", port, f"port is not valid: {', '.join(found)}"))
    path = service.get("path")
    if path in (None, "", "/"):
        return errors
    where = f"{field}.path"
    if path == "//":
        return [*errors, invalid(where, path, "segment[0] may not be empty")]
    if not path.startswith("/"):
        errors.append(invalid(where, path, "must start with a '/'"))
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(where, path, f"segment[{index}] may not be empty"))
            continue
        errors += [invalid(where, path, f"segment[{index}]: {text}") for text in subdomain_errors(step)]
    return errors


def validate_match_conditions(conditions: Sequence[Mapping[str, Any]], field: str) -> list[FieldError]:
    """Names and presence; expressions are compiled elsewhere."""
    errors: list[FieldError] = []
    names: set[str] = set()
    if len(conditions) > 64:
        errors.append(too_many(field, len(conditions), 64))
    for index, condition in enumerate(conditions):
        path = f"{field}[{index}]"
        if not (condition.get("expression") or "").strip():
            errors.append(required(f"{path}.expression"))
        name = condition.get("name") or ""
        if not name:
            errors.append(required(f"{path}.name"))
            continue
        errors += [invalid(f"{path}.name", name, text) for text in qualified_name_errors(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    return errors
