"""Volumes of a pod spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.pod.claimspec import validate_claim_template
from quarterdeck.apiserver.document.quantity import nanos_of
from quarterdeck.apiserver.metadata import byte_length, label_errors, subdomain_errors
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

from .environment import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from .mount import validate_descending_path, validate_no_backsteps

_SEVERAL: Final = "may not specify more than 1 volume type"
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def validate_volumes(
    volumes: Sequence[Json], pod_name: str, field: str, *, is_pod: bool
) -> tuple[dict[str, Json], list[FieldError]]:
    """The valid volumes by name, and what is wrong with the others."""
    errors: list[FieldError] = []
    valid: dict[str, Json] = {}
    created_claims = (
        {f"{pod_name}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral") is not None}
        if pod_name
        else set()
    )
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        name = volume.get("name") or ""
        found = _validate_source(volume, pod_name, path, is_pod=is_pod)
        if not name:
            found.append(required(f"{path}.name"))
        elif texts := label_errors(name):
            found += [invalid(f"{path}.name", name, text) for text in texts]
        if name in valid:
            found.append(duplicate(f"{path}.name", name))
        if found:
            errors += found
        else:
            valid[name] = volume
        if created_claims and (claim := volume.get("persistentVolumeClaim")) is not None:
            claim_name = claim.get("claimName") or ""
            if claim_name in created_claims:
                where = f"{path}.persistentVolumeClaim.claimName"
                text = "must not reference a PVC that gets created for an ephemeral volume"
                errors.append(invalid(where, claim_name, text))
    return valid, errors


def _validate_source(volume: Json, pod_name: str, path: str, *, is_pod: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    count = 0
    for key in _ORDER:
        source = volume.get(key)
        if source is None:
            continue
        count += 1
        if count > 1:
            errors.append(forbidden(f"{path}.{_ODD_NAMES.get(key, key)}", _SEVERAL))
            continue
        check = _CHECKS.get(key)
        if check is not None:
            errors += check(source, f"{path}.{key}")
        if key == "image" and is_pod and not source.get("reference"):
            errors.insert(0, required(f"{path}.image.reference"))
        if key == "ephemeral" and pod_name and volume.get("name"):
            claim = f"{pod_name}-{volume['name']}"
            errors += [
                invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {text}')
                for text in subdomain_errors(claim)
            ]
    if count == 0:
        errors.append(required(path, "must specify a volume type"))
    return errors


def _validate_mode(mode: int | None, field: str) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(field, mode, _MODE)]


def _validate_items(items: Sequence[Json] | None, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(items or ()):
        path = f"{field}[{index}]"
        errors += [required(f"{path}.{key}") for key in ("key", "path") if not item.get(key)]
        errors += _validate_non_reserved(item.get("path") or "", f"{path}.path")
        errors += _validate_mode(item.get("mode"), f"{path}.mode")
    return errors


def _validate_non_reserved(path: str, field: str) -> list[FieldError]:
    errors = validate_descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        errors.append(invalid(field, path, "must not start with '..'"))
    return errors


def _empty_dir(source: Json, field: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and nanos_of(limit) < 0:
        return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Json, field: str) -> list[FieldError]:
    path = source.get("path")
    if not path:
        return [required(f"{field}.path")]
    errors = validate_no_backsteps(path, f"{field}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return errors


def _keyed(name_key: str) -> Callable[[Json, str], list[FieldError]]:
    def check(source: Json, field: str) -> list[FieldError]:
        errors = [] if source.get(name_key) else [required(f"{field}.{name_key}")]
        errors += _validate_mode(source.get("defaultMode"), f"{field}.defaultMode")
        return errors + _validate_items(source.get("items"), f"{field}.items")

    return check


def _required(*keys: str) -> Callable[[Json, str], list[FieldError]]:
    def check(source: Json, field: str) -> list[FieldError]:
        return [required(f"{field}.{key}") for key in keys if not source.get(key)]

    return check


def _nfs(source: Json, field: str) -> list[FieldError]:
    errors = [required(f"{field}.{key}") for key in ("server", "path") if not source.get(key)]
    path = source.get("path") or ""
    if not path.startswith("/"):
        errors.append(invalid(f"{field}.path", path, "must be an absolute path"))
    return errors


def _downward(source: Json, field: str) -> list[FieldError]:
    errors = _validate_mode(source.get("defaultMode"), f"{field}.defaultMode")
    for item in source.get("items") or ():
        errors += _downward_file(item, field)
    return errors


def _downward_file(item: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    path = item.get("path") or ""
    if not path:
        errors.append(required(f"{field}.path"))
    errors += _validate_non_reserved(path, f"{field}.path")
    selector, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if selector is not None:
        errors += validate_field_ref(selector, VOLUME_FIELDS, f"{field}.fieldRef")
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(field, "resource", text))
    elif resource is not None:
        errors += validate_resource_ref(resource, f"{field}.resourceFieldRef", in_volume=True)
    else:
        errors.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return errors + _validate_mode(item.get("mode"), f"{field}.mode")


def _projected(source: Json, field: str) -> list[FieldError]:
    errors = _validate_mode(source.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()

    def claim(path: str, shown: str) -> None:
        if path in paths:
            errors.append(invalid(field, shown, "conflicting duplicate paths"))
        paths.add(path)

    for index, part in enumerate(source.get("sources") or ()):
        at = f"{field}.sources[{index}]"
        count = 0
        for key in ("secret", "configMap"):
            if (keyed := part.get(key)) is not None:
                count += 1
                if not keyed.get("name"):
                    errors.append(required(f"{at}.{key}.name"))
                errors += _validate_items(keyed.get("items"), f"{at}.{key}.items")
                for item in keyed.get("items") or ():
                    if item.get("path"):
                        claim(item["path"], keyed.get("name") or "")
        if (downward := part.get("downwardAPI")) is not None:
            count += 1
            for item in downward.get("items") or ():
                errors += _downward_file(item, f"{at}.downwardAPI")
                if item.get("path"):
                    claim(item["path"], item["path"])
        if (token := part.get("serviceAccountToken")) is not None:
            count += 1
            errors += _token(token, field, f"{at}.serviceAccountToken")
        if (bundle := part.get("clusterTrustBundle")) is not None:
            count += 1
            path = bundle.get("path") or ""
            if bundle.get("name") is None and bundle.get("signerName") is None:
                text = "either name or signerName must be specified"
                errors.append(required(f"{at}.clusterTrustBundle", text))
            if not path:
                errors.append(required(f"{at}.clusterTrustBundle.path"))
            errors += _validate_non_reserved(path, f"{at}.clusterTrustBundle.path")
            claim(path, path)
        if part.get("podCertificate") is not None:
            count += 1
        if count > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _token(token: Json, field: str, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds") or 0
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, text))
    if path := token.get("path"):
        errors += _validate_non_reserved(path, f"{field}.path")
    else:
        errors.append(required(f"{field}.path"))
    return errors


def validate_driver_name(name: str, field: str) -> list[FieldError]:
    """The name of a CSI driver."""
    if not name:
        return [required(field)]
    errors = [too_long(field, 63)] if byte_length(name) > 63 else []
    return errors + [invalid(field, name, text) for text in subdomain_errors(name.lower())]


def _csi(source: Json, field: str) -> list[FieldError]:
    errors = validate_driver_name(source.get("driver") or "", f"{field}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if name := secret.get("name"):
            errors += [invalid(f"{field}.name", name, text) for text in subdomain_errors(name)]
        else:
            errors.append(required(f"{field}.nodePublishSecretRef.name"))
    return errors


def _ephemeral(source: Json, field: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return validate_claim_template(template, f"{field}.volumeClaimTemplate")


def _image(source: Json, field: str) -> list[FieldError]:
    policy = source.get("pullPolicy")
    allowed = ("Always", "IfNotPresent", "Never")
    if policy in allowed:
        return []
    where = f"{field}.pullPolicy"
    return [not_supported(where, policy, allowed) if policy else required(where)]


_CHECKS: Final[Mapping[str, Callable[[Any, str], list[FieldError]]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _required("repository"),
    "gcePersistentDisk": _required("pdName"),
    "awsElasticBlockStore": _required("volumeID"),
    "secret": _keyed("secretName"),
    "nfs": _nfs,
    "iscsi": _required("targetPortal", "iqn"),
    "glusterfs": _required("endpoints", "path"),
    "persistentVolumeClaim": _required("claimName"),
    "rbd": _required("monitors", "image"),
    "cinder": _required("volumeID"),
    "cephfs": _required("monitors"),
    "quobyte": _required("registry", "volume"),
    "downwardAPI": _downward,
    "flexVolume": _required("driver"),
    "configMap": _keyed("name"),
    "azureFile": _required("secretName", "shareName"),
    "vsphereVolume": _required("volumePath"),
    "photonPersistentDisk": _required("pdID"),
    "portworxVolume": _required("volumeID"),
    "azureDisk": _required("diskName", "diskURI"),
    "projected": _projected,
    "scaleIO": _required("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_ODD_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
