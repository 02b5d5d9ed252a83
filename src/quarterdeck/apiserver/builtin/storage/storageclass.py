"""StorageClass, VolumeAttributesClass, CSI kinds, VolumeAttachment: stored with their obvious rules."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, BuiltinStrategy, immutable, same, section
from quarterdeck.apiserver.builtin.pod.volume import validate_driver_name
from quarterdeck.apiserver.document.quantity import canonical
from quarterdeck.apiserver.metadata import IMMUTABLE, invalid_json, qualified_name_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")


class StorageClassStrategy(BuiltinStrategy):
    def default(self, obj: Json) -> None:
        if obj.get("reclaimPolicy") is None:
            obj["reclaimPolicy"] = "Delete"
        if obj.get("volumeBindingMode") is None:
            obj["volumeBindingMode"] = "Immediate"

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        provisioner = obj.get("provisioner") or ""
        if not provisioner:
            errors.append(required("provisioner"))
        else:
            found = qualified_name_errors(provisioner.lower())
            errors += [invalid("provisioner", provisioner, text) for text in found]
        if "" in (obj.get("parameters") or {}):
            errors.append(invalid("parameters", "", "field can not be empty."))
        policy = obj.get("reclaimPolicy") or ""
        if policy not in _RECLAIM:
            errors.append(not_supported("reclaimPolicy", policy, _RECLAIM))
        mode = obj.get("volumeBindingMode")
        if mode is None:
            errors.append(required("volumeBindingMode"))
        elif mode not in _BINDING:
            errors.append(not_supported("volumeBindingMode", mode, _BINDING))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += immutable(obj.get(key), old.get(key), key)
        return errors


class VolumeAttributesClassStrategy(BuiltinStrategy):
    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors = validate_driver_name(obj.get("driverName") or "", "driverName")
        if not obj.get("parameters"):
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = immutable(obj.get("driverName"), old.get("driverName"), "driverName")
        return errors + immutable(obj.get("parameters"), old.get("parameters"), "parameters")


_DRIVER_DEFAULTS: Final = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


class CSIDriverStrategy(BuiltinStrategy):
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        for key, value in _DRIVER_DEFAULTS.items():
            if spec.get(key) is None:
                spec[key] = value
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        name = (obj.get("metadata") or {}).get("name") or ""
        errors = validate_driver_name(name, "name") if name else []
        modes = ("Ephemeral", "Persistent")
        for mode in (obj.get("spec") or {}).get("volumeLifecycleModes") or ():
            if mode not in modes:
                errors.append(not_supported("spec.volumeLifecycleModes", mode, modes))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = self.validate_create(obj, ctx)
        for key in ("attachRequired", "fsGroupPolicy", "volumeLifecycleModes"):
            if key != "fsGroupPolicy":
                errors += immutable(spec.get(key), before.get(key), f"spec.{key}")
        return errors


class CSINodeStrategy(BuiltinStrategy):
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        spec.setdefault("drivers", None)
        for driver in spec.get("drivers") or ():
            driver.setdefault("topologyKeys", None)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["spec"]["drivers"] = obj["spec"].get("drivers") or None  # an empty list is stored as none

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        self.prepare_create(obj, ctx)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        names: set[str] = set()
        for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            path = f"spec.drivers[{index}]"
            name = driver.get("name") or ""
            errors += validate_driver_name(name, f"{path}.name")
            if not driver.get("nodeID"):
                errors.append(required(f"{path}.nodeID"))
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


class VolumeAttachmentStrategy(BuiltinStrategy):
    has_status = True
    allows_unconditional_update = False
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        section(section(obj, "spec"), "source")
        section(obj, "status").setdefault("attached", False)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"attached": False}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = validate_driver_name(spec.get("attacher") or "", "spec.attacher")
        source = spec.get("source") or {}
        inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
        if inline is None and name is None:
            errors.append(
                required(
                    "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
                )
            )
        elif inline is not None and name is not None:
            text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            errors.append(forbidden("spec.source", text))
        elif name == "":
            errors.append(required("spec.source.persistentVolumeName"))
        node = spec.get("nodeName") or ""
        errors += [invalid("spec.nodeName", node, text) for text in subdomain_errors(node)]
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        if same(obj.get("spec"), old.get("spec")):
            return []
        return [invalid_json("spec", obj.get("spec"), IMMUTABLE)]


class CSIStorageCapacityStrategy(BuiltinStrategy):
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        for key in ("capacity", "maximumVolumeSize"):
            if obj.get(key) is not None:
                obj[key] = canonical(obj[key])

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        name = obj.get("storageClassName") or ""
        return [invalid("storageClassName", name, text) for text in subdomain_errors(name)]

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = immutable(obj.get("nodeTopology"), old.get("nodeTopology"), "nodeTopology")
        return errors + immutable(
            obj.get("storageClassName"), old.get("storageClassName"), "storageClassName"
        )
