"""PersistentVolumeClaim and PersistentVolume: storage only, with the checks clients rely on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable, same, section
from quarterdeck.apiserver.builtin.pod.claimspec import (
    VOLUME_MODES,
    validate_access_modes,
    validate_claim_spec,
)
from quarterdeck.apiserver.builtin.pod.defaults import default_claim_spec
from quarterdeck.apiserver.builtin.pod.resources import quantity_or_zero
from quarterdeck.apiserver.builtin.pod.warning import claim_warnings
from quarterdeck.apiserver.document.internalform import internal_diff
from quarterdeck.apiserver.document.quantity import nanos_of, round_list
from quarterdeck.apiserver.metadata import subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
#: keys of a volume's spec that are not its source
_VOLUME_SPEC_KEYS: Final = frozenset(
    (
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    )
)


def _is_old_style_source(source: Mapping[str, Any] | None) -> bool:
    if source is None:
        return False
    group, kind = source.get("apiGroup") or "", source.get("kind")
    known = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    return bool(source.get("name")) and (group, kind) in known


class PersistentVolumeClaimStrategy(BuiltinStrategy):
    metadata_checks = 4
    has_status = True

    def default(self, obj: Json) -> None:
        default_claim_spec(section(obj, "spec"))
        status = section(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Pending"
        for key in ("capacity", "allocatedResources"):
            if status.get(key):
                round_list(status[key])

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Pending"}
        spec = section(obj, "spec")
        if not _is_old_style_source(spec.get("dataSource")):
            spec.pop("dataSource", None)  # other sources need dataSourceRef
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None and reference is None:
            spec["dataSourceRef"] = dict(source)
        elif reference is not None and source is None and not reference.get("namespace"):
            spec["dataSource"] = {key: reference[key] for key in reference if key != "namespace"}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_claim_spec(obj.get("spec") or {}, "spec")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        spec, before = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
        bound = (old.get("status") or {}).get("phase") == "Bound"
        if not before.get("volumeName"):
            before["volumeName"] = spec.get("volumeName")
        if before.get("storageClassName") is None:  # a default class may be filled in later
            before["storageClassName"] = spec.get("storageClassName")
        requests = (spec.get("resources") or {}).get("requests") or {}
        requested = ((before.get("resources") or {}).get("requests") or {}).get("storage")
        if bound:
            spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
            if requests:
                kept = {**requests, "storage": requested}
                spec["resources"] = {**spec["resources"], "requests": kept}
        if not same(spec, before):
            text = (
                "spec is immutable after creation except resources.requests "
                "and volumeAttributesClassName for bound claims\n"
                + internal_diff("PersistentVolumeClaimSpec", before, spec)
            )
            errors.append(forbidden("spec", text))
        size = nanos_of(requests.get("storage"))
        if size < nanos_of(requested):
            capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
            if size <= nanos_of(capacity):
                text = "field can not be less than status.capacity"
                errors.append(forbidden("spec.resources.requests.storage", text))
        mode = (obj.get("spec") or {}).get("volumeMode")
        return errors + immutable(mode, before.get("volumeMode"), "volumeMode")

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        return claim_warnings(obj)


class PersistentVolumeStrategy(BuiltinStrategy):
    has_status = True

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        if spec.get("volumeMode") is None:
            spec["volumeMode"] = "Filesystem"
        if spec.get("capacity"):
            round_list(spec["capacity"])
        host_path = spec.get("hostPath")
        if host_path is not None and host_path.get("type") is None:
            host_path["type"] = ""
        status = section(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        if not spec.get("accessModes"):
            errors.append(required("spec.accessModes"))
        errors += validate_access_modes(spec.get("accessModes"), "spec.accessModes")
        capacity = spec.get("capacity") or {}
        if not capacity:
            errors.append(required("spec.capacity"))
        if "storage" not in capacity or len(capacity) > 1:
            errors.append(not_supported("spec.capacity", capacity or None, ("storage",)))
        for name, source in capacity.items():
            if (size := quantity_or_zero(source)).nanos <= 0:
                errors.append(invalid(f"spec.capacity[{name}]", size.text, "must be greater than zero"))
        policy = spec.get("persistentVolumeReclaimPolicy")
        if policy and policy not in _RECLAIM_POLICIES:
            errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
        sources = [key for key, value in spec.items() if key not in _VOLUME_SPEC_KEYS and value is not None]
        errors += [forbidden(f"spec.{key}", "may not specify more than 1 volume type") for key in sources[1:]]
        if "local" in sources and not spec.get("nodeAffinity"):
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        if not sources:
            errors.append(required("spec", "must specify a volume type"))
        if name := spec.get("storageClassName"):
            errors += [invalid("spec.storageClassName", name, text) for text in subdomain_errors(name)]
        mode = spec.get("volumeMode")
        if mode is not None and mode not in VOLUME_MODES:
            errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        keys = (spec.keys() | before.keys()) - _VOLUME_SPEC_KEYS
        if not all(same(spec.get(key), before.get(key)) for key in keys):
            text = "spec.persistentvolumesource is immutable after creation\n"
            errors.append(forbidden("spec.persistentvolumesource", text))
        errors += immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
        if before.get("nodeAffinity"):
            errors += immutable(
                spec.get("nodeAffinity"), before["nodeAffinity"], "nodeAffinity", struct="VolumeNodeAffinity"
            )
        return errors

    def prepare_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        status, before = section(obj, "status"), old.get("status") or {}
        stamp = before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if not status.get("lastPhaseTransitionTime") and stamp:
                status["lastPhaseTransitionTime"] = stamp
        elif status.get("lastPhaseTransitionTime") in (None, stamp):
            status["lastPhaseTransitionTime"] = ctx.now
