"""Containers of a pod spec: ports, environment, mounts, probes, life cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from quarterdeck.apiserver.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from quarterdeck.apiserver.metadata import label_errors, qualified_name_errors, subdomain_errors
from quarterdeck.apiserver.strategy import Json

from .formats import (
    config_key_errors,
    env_name_errors,
    header_name_errors,
    non_negative,
    port_errors,
    port_name_errors,
    port_or_name,
    validate_label,
)
from .quantity import canonical
from .resources import validate_requirements
from .security import validate_container_context

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_SEVERAL_HANDLERS: Final = "may not specify more than 1 handler type"


class ContainerScope:
    """What the containers of one pod spec share during validation."""

    __slots__ = ("claim_names", "grace_period", "host_users", "restart_policy", "volumes")

    def __init__(self, spec: Mapping[str, Any], volumes: Mapping[str, Json]) -> None:
        self.volumes = volumes
        self.restart_policy: str = spec.get("restartPolicy") or ""
        self.grace_period: int | None = spec.get("terminationGracePeriodSeconds")
        self.host_users: bool = spec.get("hostUsers") is not False
        claims = spec.get("resourceClaims")
        self.claim_names: Set[str] = {claim.get("name") or "" for claim in claims} if claims else frozenset()


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
            errors += _validate_lifecycle(lifecycle, scope, f"{path}.lifecycle")
        if get("livenessProbe") or get("readinessProbe") or get("startupProbe"):
            errors += _validate_probes(container, scope, path)
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
                errors += _validate_lifecycle(lifecycle, scope, f"{path}.lifecycle")
            errors += _validate_probes(container, scope, path)
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
        errors += _validate_env(env, f"{path}.env")
    if sources := get("envFrom"):
        errors += _validate_env_from(sources, f"{path}.envFrom")
    mounts, devices = get("volumeMounts"), get("volumeDevices")
    if mounts:
        errors += _validate_mounts(mounts, devices or (), scope, container, f"{path}.volumeMounts")
    if devices:
        errors += _validate_devices(devices, mounts or (), scope, f"{path}.volumeDevices")
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


_ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_DOWNWARD_FIELDS: Final = frozenset((*_ENV_FIELDS, *VOLUME_FIELDS, "spec.host", "status.phase"))
_RESOURCE_FIELDS: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SIZES: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_SIZE_DIVISORS: Final = frozenset(_SIZES.split(", "))


def _validate_env(variables: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(required(f"{field}[{index}].name"))
        elif found := env_name_errors(name):
            errors += [invalid(f"{field}[{index}].name", name, text) for text in found]
        source = variable.get("valueFrom")
        if source is not None:
            value = variable.get("value") or ""
            errors += _validate_env_source(source, value, f"{field}[{index}].valueFrom")
    return errors


def _validate_env_source(source: Json, value: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    count = 0
    if (selector := source.get("fieldRef")) is not None:
        count += 1
        errors += validate_field_ref(selector, _ENV_FIELDS, f"{field}.fieldRef")
    if (selector := source.get("resourceFieldRef")) is not None:
        count += 1
        errors += validate_resource_ref(selector, f"{field}.resourceFieldRef", in_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if (selector := source.get(key)) is not None:
            count += 1
            errors += _validate_key_ref(selector, f"{field}.{key}")
    if (selector := source.get("fileKeyRef")) is not None:
        count += 1
        errors += _validate_file_ref(selector, f"{field}.fileKeyRef")
    if count == 0:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(field, "", text))
    elif value:
        errors.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(field, "", "may not have more than one field specified at a time"))
    return errors


def validate_field_ref(selector: Json, allowed: Sequence[str], field: str) -> list[FieldError]:
    if not selector.get("apiVersion"):
        return [required(f"{field}.apiVersion")]
    path: str = selector.get("fieldPath") or ""
    if not path:
        return [required(f"{field}.fieldPath")]
    base, subscript = _split_subscript(path)
    known = (
        base in ("metadata.annotations", "metadata.labels")
        if subscript is not None
        else path in _DOWNWARD_FIELDS
    )
    if selector["apiVersion"] != "v1":
        text = f"error converting fieldPath: unsupported pod version: {selector['apiVersion']}"
        return [invalid(f"{field}.fieldPath", path, text)]
    if not known:
        if subscript is not None:
            text = f"error converting fieldPath: field label does not support subscript: {path}"
        else:
            text = f"error converting fieldPath: field label not supported: {path}"
        return [invalid(f"{field}.fieldPath", path, text)]
    if subscript is not None:
        key = subscript.lower() if base == "metadata.annotations" else subscript
        return [invalid(field, key, text) for text in qualified_name_errors(key)]
    if path not in allowed:
        return [not_supported(f"{field}.fieldPath", path, allowed)]
    return []


def _split_subscript(path: str) -> tuple[str, str | None]:
    if path.endswith("']") and "['" in path:
        base, _, subscript = path[:-2].partition("['")
        if base:
            return base, subscript
    return path, None


def validate_resource_ref(selector: Json, field: str, *, in_volume: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    resource: str = selector.get("resource") or ""
    huge = resource.startswith(("requests.hugepages-", "limits.hugepages-"))
    if in_volume and not selector.get("containerName"):
        errors.append(required(f"{field}.containerName"))
    elif not resource:
        errors.append(required(f"{field}.resource"))
    elif resource not in _RESOURCE_FIELDS and not huge:
        errors.append(not_supported(f"{field}.resource", resource, _RESOURCE_FIELDS))
    divisor = canonical(selector.get("divisor") or "0")
    if divisor == "0":
        return errors
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.append(invalid(f"{field}.divisor", resource, text))
    elif divisor not in _SIZE_DIVISORS:
        names = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
        name = "hugepages" if huge else names.get(resource.partition(".")[2])
        if name:
            text = f"only divisor's values {_SIZES} are supported with the {name} resource"
            errors.append(invalid(f"{field}.divisor", resource, text))
    return errors


def _validate_key_ref(selector: Json, field: str) -> list[FieldError]:
    name = selector.get("name") or ""
    errors = [invalid(f"{field}.name", name, text) for text in subdomain_errors(name)]
    key = selector.get("key")
    if not key:
        errors.append(required(f"{field}.key"))
    else:
        errors += [invalid(f"{field}.key", key, text) for text in config_key_errors(key)]
    return errors


def _validate_file_ref(selector: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if key := selector.get("key"):
        errors += [invalid(f"{field}.key", key, text) for text in env_name_errors(key)]
    else:
        errors.append(required(f"{field}.key"))
    if volume := selector.get("volumeName"):
        errors += validate_label(volume, f"{field}.volumeName")
    else:
        errors.append(required(f"{field}.volumeName"))
    if path := selector.get("path"):
        errors += validate_no_backsteps(path, f"{field}.path")
    else:
        errors.append(required(f"{field}.path"))
    return errors


def _validate_env_from(sources: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            errors += [invalid(f"{path}.prefix", prefix, text) for text in env_name_errors(prefix)]
        count = 0
        for key in ("configMapRef", "secretRef"):
            if (reference := source.get(key)) is not None:
                count += 1
                if name := reference.get("name"):
                    found = subdomain_errors(name, prefix=True)
                    errors += [invalid(f"{path}.{key}.name", name, text) for text in found]
                else:
                    errors.append(required(f"{path}.{key}.name"))
        if count == 0:
            errors.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(field, "", "may not have more than one field specified at a time"))
    return errors


def validate_no_backsteps(path: str, field: str) -> list[FieldError]:
    if ".." in path and ".." in path.split("/"):
        return [invalid(field, path, "must not contain '..'")]
    return []


def validate_descending_path(path: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if path.startswith("/"):
        errors.append(invalid(field, path, "must be a relative path"))
    return errors + validate_no_backsteps(path, field)


_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def _validate_mounts(
    mounts: Sequence[Json], devices: Sequence[Json], scope: ContainerScope, container: Json, field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    for index, mount in enumerate(mounts):
        name = mount.get("name") or ""
        path = mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{field}[{index}].name"))
        if name not in scope.volumes:
            errors.append(not_found(f"{field}[{index}].name", name))
        if not path:
            errors.append(required(f"{field}[{index}].mountPath"))
        if path in seen:
            errors.append(invalid(f"{field}[{index}].mountPath", path, "must be unique"))
        seen.add(path)
        if name in device_names:
            text = "must not already exist in volumeDevices"
            errors.append(invalid(f"{field}[{index}].name", name, text))
        if path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{field}[{index}].mountPath", path, text))
        sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
        if sub_path:
            errors += validate_descending_path(sub_path, f"{field}.subPath")
        if expression:
            if sub_path:
                text = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid(f"{field}[{index}].subPathExpr", expression, text))
            errors += validate_descending_path(expression, f"{field}.subPathExpr")
        propagation = mount.get("mountPropagation")
        if propagation is not None:
            where = f"{field}.mountPropagation"
            if propagation not in _PROPAGATIONS:
                errors.append(not_supported(where, propagation, _PROPAGATIONS))
            privileged = (container.get("securityContext") or {}).get("privileged")
            if propagation == "Bidirectional" and not privileged:
                text = "Bidirectional mount propagation is available only to privileged containers"
                errors.append(forbidden(where, text))
        if (recursive := mount.get("recursiveReadOnly")) is not None:
            errors += _validate_recursive(mount, recursive, f"{field}.recursiveReadOnly")
    return errors


def _validate_recursive(mount: Json, mode: str, field: str) -> list[FieldError]:
    if mode not in _RECURSIVE:
        return [not_supported(field, mode, _RECURSIVE)]
    errors: list[FieldError] = []
    if mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(field, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(field, text))
    return errors


def _validate_devices(
    devices: Sequence[Json], mounts: Sequence[Json], scope: ContainerScope, field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    mount_names = {mount.get("name") for mount in mounts}
    mount_paths = {mount.get("mountPath") for mount in mounts}
    for index, device in enumerate(devices):
        at = f"{field}[{index}]"
        name = device.get("name") or ""
        path = device.get("devicePath") or ""
        volume = scope.volumes.get(name)
        if not name:
            errors.append(required(f"{at}.name"))
        if name in names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{at}.name", name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, text))
        if not path:
            errors.append(required(f"{at}.devicePath"))
        if path in paths:
            errors.append(invalid(f"{at}.devicePath", path, "must be unique"))
        if path and validate_no_backsteps(path, at):
            errors.append(invalid(f"{at}.devicePath", path, "can not contain backsteps ('..')"))
        else:
            paths.add(path)
        if name in mount_names:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if path in mount_paths:
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{at}.devicePath", path, text))
        if name:
            names.add(name)
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


def _validate_probes(container: Json, scope: ContainerScope, path: str) -> list[FieldError]:
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


def _validate_lifecycle(lifecycle: Json, scope: ContainerScope, field: str) -> list[FieldError]:
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
