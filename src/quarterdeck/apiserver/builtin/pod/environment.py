"""The environment of a container: variables and where their values come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import config_key_errors, env_name_errors, validate_label
from quarterdeck.apiserver.document.quantity import canonical
from quarterdeck.apiserver.metadata import qualified_name_errors, subdomain_errors
from quarterdeck.wire.fielderror import FieldError, invalid, not_supported, required

from .mount import validate_no_backsteps

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


def validate_env(variables: Sequence[Json], field: str) -> list[FieldError]:
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


def validate_env_from(sources: Sequence[Json], field: str) -> list[FieldError]:
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
