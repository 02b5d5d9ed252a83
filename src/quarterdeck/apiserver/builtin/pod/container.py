"""Containers of a pod spec: what is common to all, ports, restart and resize policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import port_errors, port_name_errors
from quarterdeck.apiserver.metadata import label_errors
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)

from .environment import validate_env, validate_env_from
from .mount import validate_devices, validate_mounts
from .probe import validate_lifecycle, validate_probes
from .resources import validate_requirements
from .scope import ContainerScope
from .security import validate_container_context

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


def validate_containers(containers: Sequence[Json], scope: ContainerScope, field: str) -> list[FieldError]:
    if not containers:
        return [required(field)]
    errors: list[FieldError] = []
    names: set[str] = set()
    has_ports = False
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += _validate_common(container, scope, path)
        name = container.get("name") or ""
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        get = container.get
        if lifecycle := get("lifecycle"):
            errors += validate_lifecycle(lifecycle, scope, f"{path}.lifecycle")
        if get("livenessProbe") or get("readinessProbe") or get("startupProbe"):
            errors += validate_probes(container, scope, path)
        if get("restartPolicy") is not None or get("restartPolicyRules"):
            errors += _validate_restart_policy(container, path)
        if get("ports"):
            has_ports = True
    if has_ports:
        errors += validate_host_ports(containers, field)
    return errors


def validate_init_containers(
    containers: Sequence[Json], regular: Sequence[Json], scope: ContainerScope, field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    names = {container.get("name") or "" for container in regular}
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += _validate_common(container, scope, path)
        policy = container.get("restartPolicy")
        if policy is not None or container.get("restartPolicyRules"):
            errors += _validate_restart_policy(container, path)
        name = container.get("name") or ""
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        elif name:
            names.add(name)
        errors += validate_host_ports([container], field)
        if policy == "Always":
            if lifecycle := container.get("lifecycle"):
                errors += validate_lifecycle(lifecycle, scope, f"{path}.lifecycle")
            errors += validate_probes(container, scope, path)
        else:
            text = "may not be set for init containers without restartPolicy=Always"
            errors += [
                forbidden(f"{path}.{key}", text)
                for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
                if container.get(key) is not None
            ]
            for position, resize in enumerate(container.get("resizePolicy") or ()):
                if resize.get("restartPolicy") == "RestartContainer":
                    text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    where = f"{path}.resizePolicy[{position}].restartPolicy"
                    errors.append(invalid(where, "RestartContainer", text))
    return errors


_FORBIDDEN_IN_EPHEMERAL: Final = (
    "ports",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "resizePolicy",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


def validate_ephemeral_containers(
    containers: Sequence[Json], others: Sequence[Json], scope: ContainerScope, field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    text = "cannot be set for an Ephemeral Container"
    targets = {container.get("name") or "" for container in others}
    names = set(targets)
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += _validate_common(container, scope, path)
        errors += validate_image_padding([container], field, first=index)
        name = container.get("name") or ""
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in targets:
            errors.append(not_found(f"{path}.targetContainerName", target))
        errors += [forbidden(f"{path}.{key}", text) for key in _FORBIDDEN_IN_EPHEMERAL if container.get(key)]
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden(f"{path}.volumeMounts[{position}].{key}", text)
                for key in ("subPath", "subPathExpr")
                if mount.get(key)
            ]
    return errors


def validate_image_padding(containers: Sequence[Json], field: str, *, first: int = 0) -> list[FieldError]:
    """Only for pods themselves, not for templates."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers, first):
        image = container.get("image") or ""
        if image != image.strip():
            text = "must not have leading or trailing whitespace"
            errors.append(invalid(f"{field}[{index}].image", image, text))
    return errors


def _validate_common(container: Json, scope: ContainerScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    get = container.get
    if name := get("name"):
        if found := label_errors(name):
            errors += [invalid(f"{path}.name", name, text) for text in found]
    else:
        errors.append(required(f"{path}.name"))
    if not get("image"):
        errors.append(required(f"{path}.image"))
    policy = get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        where = f"{path}.terminationMessagePolicy"
        errors.append(not_supported(where, policy, _MESSAGE_POLICIES) if policy else required(where))
    if ports := get("ports"):
        errors += _validate_ports(ports, f"{path}.ports")
    if env := get("env"):
        errors += validate_env(env, f"{path}.env")
    if sources := get("envFrom"):
        errors += validate_env_from(sources, f"{path}.envFrom")
    mounts, devices = get("volumeMounts"), get("volumeDevices")
    if mounts:
        errors += validate_mounts(mounts, devices or (), scope, container, f"{path}.volumeMounts")
    if devices:
        errors += validate_devices(devices, mounts or (), scope, f"{path}.volumeDevices")
    policy = get("imagePullPolicy")
    if policy not in _PULL_POLICIES:
        where = f"{path}.imagePullPolicy"
        errors.append(not_supported(where, policy, _PULL_POLICIES) if policy else required(where))
    if resources := get("resources"):
        errors += validate_requirements(resources, f"{path}.resources", claim_names=scope.claim_names)
    if resize := get("resizePolicy"):
        errors += _validate_resize_policy(resize, scope, f"{path}.resizePolicy")
    if context := get("securityContext"):
        where = f"{path}.securityContext"
        errors += validate_container_context(context, where, host_users=scope.host_users)
    return errors


def _validate_ports(ports: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        if name := port.get("name"):
            if found := port_name_errors(name):
                errors += [invalid(f"{path}.name", name, text) for text in found]
            elif name in names:
                errors.append(duplicate(f"{path}.name", name))
            else:
                names.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            errors.append(required(f"{path}.containerPort"))
        else:
            errors += [invalid(f"{path}.containerPort", number, text) for text in port_errors(number)]
        if host := port.get("hostPort"):
            errors += [invalid(f"{path}.hostPort", host, text) for text in port_errors(host)]
        protocol = port.get("protocol")
        if protocol not in _PROTOCOLS:
            where = f"{path}.protocol"
            errors.append(not_supported(where, protocol, _PROTOCOLS) if protocol else required(where))
    return errors


def validate_host_ports(containers: Sequence[Json], field: str) -> list[FieldError]:
    """Host ports are unique by protocol, address and number."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if host := port.get("hostPort"):
                key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{host}"
                if key in seen:
                    errors.append(duplicate(f"{field}[{index}].ports[{position}].hostPort", key))
                seen.add(key)
    return errors


def _validate_resize_policy(policies: Sequence[Json], scope: ContainerScope, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name = policy.get("resourceName") or ""
        if name in seen:
            errors.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
        if name not in ("cpu", "memory"):
            errors.append(not_supported(field, name, ("cpu", "memory")) if name else required(field))
        restart = policy.get("restartPolicy") or ""
        allowed = ("NotRequired", "RestartContainer")
        if restart not in allowed:
            errors.append(not_supported(field, restart, allowed) if restart else required(field))
        if scope.restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(field, restart, text))
    return errors


def _validate_restart_policy(container: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = container.get("restartPolicy")
    rules = container.get("restartPolicyRules") or ()
    if policy is None:
        text = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", text))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{index}]"
        action = rule.get("action") or ""
        if action not in ("Restart", "RestartAllContainers"):
            errors.append(not_supported(f"{at}.action", action, ("Restart", "RestartAllContainers")))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{at}.exitCodes", "must be specified"))
            continue
        operator = codes.get("operator") or ""
        if operator not in ("In", "NotIn"):
            errors.append(not_supported(f"{at}.exitCodes.operator", operator, ("In", "NotIn")))
        values = codes.get("values") or ()
        if len(values) > 255:
            errors.append(too_many(f"{at}.exitCodes.values", len(values), 255))
    return errors
