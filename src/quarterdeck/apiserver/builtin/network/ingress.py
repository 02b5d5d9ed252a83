"""Ingress and IngressClass: defaults and validation."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import (
    parse_ip,
    port_errors,
    port_name_errors,
    wildcard_subdomain_errors,
)
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, SpecStrategy, immutable, section
from quarterdeck.apiserver.metadata import (
    invalid_json,
    label_errors,
    subdomain_errors,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, not_supported, required

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES: Final = ("/..", "/.")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


class IngressStrategy(SpecStrategy):
    def default(self, obj: Json) -> None:
        section(obj, "spec")
        section(section(obj, "status"), "loadBalancer")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        rules = spec.get("rules")
        if not rules and spec.get("defaultBackend") is None:
            text = "either `defaultBackend` or `rules` must be specified"
            errors.append(invalid_json("spec", rules, text))
        if (backend := spec.get("defaultBackend")) is not None:
            errors += _validate_backend(backend, "spec.defaultBackend")
        for index, rule in enumerate(rules or ()):
            errors += _validate_rule(rule, f"spec.rules[{index}]")
        for index, item in enumerate(spec.get("tls") or ()):
            path = f"spec.tls[{index}]"
            for position, host in enumerate(item.get("hosts") or ()):
                check = wildcard_subdomain_errors if "*" in host else subdomain_errors
                errors += [invalid(f"{path}.hosts[{position}]", host, text) for text in check(host)]
            if name := item.get("secretName"):
                errors += [invalid(f"{path}.secretName", name, text) for text in subdomain_errors(name)]
        if (name := spec.get("ingressClassName")) is not None:
            errors += [invalid("spec.ingressClassName", name, text) for text in subdomain_errors(name)]
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        annotations = obj["metadata"].get("annotations") or {}
        if old is not None or _CLASS_ANNOTATION not in annotations:
            return []
        return [
            f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        ]


def _validate_rule(rule: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    host = rule.get("host") or ""
    if host:
        if parse_ip(host):
            errors.append(invalid(f"{field}.host", host, "must be a DNS name, not an IP address"))
        check = wildcard_subdomain_errors if "*" in host else subdomain_errors
        errors += [invalid(f"{field}.host", host, text) for text in check(host)]
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or ()
    if not paths:
        errors.append(required(f"{field}.http.paths"))
    for index, path in enumerate(paths):
        errors += _validate_path(path, f"{field}.http.paths[{index}]")
    return errors


def _validate_path(path: Json, field: str) -> list[FieldError]:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    where = f"{field}.path"
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            errors.append(invalid(where, text, "must be an absolute path"))
        errors += [invalid(where, text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
        errors += [
            invalid(where, text, f"cannot end with '{bad}'") for bad in _BAD_SUFFIXES if text.endswith(bad)
        ]
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(invalid(where, text, "must be an absolute path"))
    else:
        errors.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    return errors + _validate_backend(path.get("backend") or {}, f"{field}.backend")


def _validate_backend(backend: Json, field: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [required(f"{field}.resource.{key}") for key in ("kind", "name") if not resource.get(key)]
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    errors: list[FieldError] = []
    name = service.get("name") or ""
    if not name:
        errors.append(required(f"{field}.service.name"))
    else:
        errors += [invalid(f"{field}.service.name", name, text) for text in label_errors(name)]
    port = service.get("port") or {}
    number, port_name = port.get("number") or 0, port.get("name") or ""
    if port_name and number:
        text = "cannot set both port name & port number"
        errors.append(invalid(field, "", text))
    elif port_name:
        path = f"{field}.service.port.name"
        errors += [invalid(path, port_name, text) for text in port_name_errors(port_name)]
    elif number:
        path = f"{field}.service.port.number"
        errors += [invalid(path, number, text) for text in port_errors(number)]
    else:
        errors.append(required(field, "port name or number is required"))
    return errors


class IngressClassStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        parameters = section(obj, "spec").get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = "Cluster"

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        controller = spec.get("controller") or ""
        host, slash, path = controller.partition("/")
        if len(controller) > 250:
            errors.append(invalid("spec.controller", controller, "may not be more than 250 bytes"))
        if not controller:
            errors.append(required("spec.controller"))
        elif not slash or not host or not path:
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            errors.append(invalid("spec.controller", controller, text))
        else:
            errors += [invalid("spec.controller", host, text) for text in subdomain_errors(host)]
        parameters = spec.get("parameters")
        if parameters is not None:
            errors += [
                required(f"spec.parameters.{key}") for key in ("kind", "name") if not parameters.get(key)
            ]
            scope = parameters.get("scope")
            if scope not in ("Cluster", "Namespace"):
                errors.append(not_supported("spec.parameters.scope", scope, ("Cluster", "Namespace")))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        controllers = (obj.get("spec") or {}).get("controller"), (old.get("spec") or {}).get("controller")
        return self.validate_create(obj, ctx) + immutable(*controllers, "spec.controller")
