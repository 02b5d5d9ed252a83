"""Probes and life-cycle hooks of a container."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import header_name_errors, non_negative, port_or_name
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .scope import ContainerScope

_SEVERAL_HANDLERS: Final = "may not specify more than 1 handler type"


def validate_probes(container: Json, scope: ContainerScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is None:
            continue
        at = f"{path}.{key}"
        errors += _validate_handler(probe, scope, at)
        for name in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            errors += non_negative(probe.get(name), f"{at}.{name}")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            where = f"{at}.terminationGracePeriodSeconds"
            errors.append(invalid(where, grace, "must be greater than 0"))
        if key == "readinessProbe":
            if grace is not None:
                where = f"{at}.terminationGracePeriodSeconds"
                errors.append(invalid(where, grace, "must not be set for readinessProbes"))
        elif (threshold := probe.get("successThreshold") or 0) != 1:
            errors.append(invalid(f"{at}.successThreshold", threshold, "must be 1"))
    return errors


def validate_lifecycle(lifecycle: Json, scope: ContainerScope, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("postStart", "preStop"):
        if (handler := lifecycle.get(key)) is not None:
            errors += _validate_handler(handler, scope, f"{field}.{key}")
    return errors


def _validate_handler(handler: Json, scope: ContainerScope, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    count = 0
    for key in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(key)
        if action is None:
            continue
        count += 1
        at = f"{field}.{key}"
        if count > 1:
            errors.append(forbidden(at, _SEVERAL_HANDLERS))
        elif key == "exec":
            if not action.get("command"):
                errors.append(required(f"{at}.command"))
        elif key == "httpGet":
            errors += _validate_http(action, at)
        elif key == "sleep":
            seconds = action.get("seconds") or 0
            limit = scope.grace_period
            if limit is not None and not 0 <= seconds <= limit:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({limit})"
                errors.append(invalid(at, seconds, text))
        else:
            errors += port_or_name(action.get("port"), f"{at}.port")
    if count == 0:
        errors.append(required(field, "must specify a handler type"))
    return errors


def _validate_http(action: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not action.get("path"):
        errors.append(required(f"{field}.path"))
    errors += port_or_name(action.get("port"), f"{field}.port")
    if (scheme := action.get("scheme") or "") not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{field}.scheme", scheme, ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        errors += [invalid(f"{field}.httpHeaders", name, text) for text in header_name_errors(name)]
    return errors
