"""Where a container sees volumes: mounts, block devices and their paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_found, not_supported, required

from .scope import ContainerScope


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


def validate_mounts(
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


def validate_devices(
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
