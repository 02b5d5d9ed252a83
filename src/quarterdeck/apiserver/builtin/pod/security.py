"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import user_id_errors
from quarterdeck.apiserver.metadata import byte_length, invalid_json
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, not_supported, required, too_long

_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_is_sysctl = re.compile(_SYSCTL).fullmatch


def validate_container_context(context: Json, field: str, *, host_users: bool) -> list[FieldError]:
    get = context.get
    errors: list[FieldError] = []
    for key in ("runAsUser", "runAsGroup"):
        if (identifier := get(key)) is not None:
            errors += [invalid(f"{field}.{key}", identifier, text) for text in user_id_errors(identifier)]
    if (mount := get("procMount")) is not None:
        if mount not in ("Default", "Unmasked"):
            errors.append(not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
        if host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{field}.procMount", mount, text))
    if (profile := get("seccompProfile")) is not None:
        errors += _validate_seccomp(profile, f"{field}.seccompProfile")
    if get("allowPrivilegeEscalation") is False:
        if get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid_json(field, _go_context(context), text))
        if "CAP_SYS_ADMIN" in ((get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid_json(field, _go_context(context), text))
    if (profile := get("appArmorProfile")) is not None:
        errors += _validate_app_armor(profile, f"{field}.appArmorProfile")
    return errors


def _go_context(context: Json) -> Json:
    """A container's security context under its internal Go names."""
    capabilities = context.get("capabilities")
    return {
        "Capabilities": None
        if capabilities is None
        else {"Add": capabilities.get("add"), "Drop": capabilities.get("drop")},
        "Privileged": context.get("privileged"),
        "SELinuxOptions": context.get("seLinuxOptions"),
        "WindowsOptions": context.get("windowsOptions"),
        "RunAsUser": context.get("runAsUser"),
        "RunAsGroup": context.get("runAsGroup"),
        "RunAsNonRoot": context.get("runAsNonRoot"),
        "ReadOnlyRootFilesystem": context.get("readOnlyRootFilesystem"),
        "AllowPrivilegeEscalation": context.get("allowPrivilegeEscalation"),
        "ProcMount": context.get("procMount"),
        "SeccompProfile": context.get("seccompProfile"),
        "AppArmorProfile": context.get("appArmorProfile"),
    }


def validate_pod_context(context: Json, spec: Json, field: str) -> list[FieldError]:
    get = context.get
    errors: list[FieldError] = []
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        if (identifier := get(key)) is not None:
            errors += [invalid(f"{field}.{key}", identifier, text) for text in user_id_errors(identifier)]
    for index, group in enumerate(get("supplementalGroups") or ()):
        path = f"{field}.supplementalGroups[{index}]"
        errors += [invalid(path, group, text) for text in user_id_errors(group)]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{field}.shareProcessNamespace", True, text))
    if sysctls := get("sysctls"):
        errors += _validate_sysctls(sysctls, spec, f"{field}.sysctls")
    errors += _choice(context, "fsGroupChangePolicy", field)
    if (profile := get("seccompProfile")) is not None:
        errors += _validate_seccomp(profile, f"{field}.seccompProfile")
    if (profile := get("appArmorProfile")) is not None:
        errors += _validate_app_armor(profile, f"{field}.appArmorProfile")
    errors += _choice(context, "supplementalGroupsPolicy", field)
    return errors + _choice(context, "seLinuxChangePolicy", field)


def _choice(context: Json, key: str, field: str) -> list[FieldError]:
    value, allowed = context.get(key), _CHOICES[key]
    return [] if value is None or value in allowed else [not_supported(f"{field}.{key}", value, allowed)]


_CHOICES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def _validate_sysctls(sysctls: Any, spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        path = f"{field}[{index}].name"
        name = sysctl.get("name") or ""
        if not name:
            errors.append(required(path))
        elif byte_length(name) > 253 or not _is_sysctl(name):
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            errors.append(invalid(path, name, text))
        elif name in seen:
            errors.append(duplicate(path, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(path, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (
            dotted.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or dotted == "kernel.sem"
        ):
            errors.append(invalid(path, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


def _validate_seccomp(profile: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = profile.get("type") or ""
    local = profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{field}.type", kind, _PROFILE_TYPES))
    if kind == "Localhost":
        path = f"{field}.localhostProfile"
        if local is None:
            errors.append(required(path, "must be set when seccomp type is Localhost"))
        else:
            if local.startswith("/"):
                errors.append(invalid(path, local, "must be a relative path"))
            if ".." in local.split("/"):
                errors.append(invalid(path, local, "must not contain '..'"))
    elif local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        text = "can only be set when seccomp type is Localhost"
        errors.append(invalid_json(f"{field}.localhostProfile", shown, text))
    return errors


def _validate_app_armor(profile: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = profile.get("type") or ""
    local = profile.get("localhostProfile")
    path = f"{field}.localhostProfile"
    if kind == "Localhost":
        missing = "must be set when AppArmor type is Localhost"
        if local is None:
            errors.append(required(path, missing))
        else:
            if local != local.strip():
                errors.append(invalid(path, local, "must not be padded with whitespace"))
            elif not local:
                errors.append(required(path, missing))
            if byte_length(local) > 4095:
                errors.append(too_long(path, 4095))
    elif kind in _PROFILE_TYPES:
        if local is not None:
            errors.append(invalid(path, local, "can only be set when AppArmor type is Localhost"))
    elif not kind:
        errors.append(required(f"{field}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(not_supported(f"{field}.type", kind, _PROFILE_TYPES))
    return errors
