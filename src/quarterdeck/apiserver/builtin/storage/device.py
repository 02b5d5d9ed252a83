"""resource.k8s.io: devices, their classes and claims; stored with their obvious rules."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, BuiltinStrategy, immutable, same, section
from quarterdeck.apiserver.metadata import invalid_json, label_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, required

from .claimaccess import access_errors


class DeviceClassStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        section(obj, "spec")


def _default_claim(spec: Json) -> None:
    for request in section(spec, "devices").get("requests") or ():
        exact = request.get("exactly")
        for part in (*([exact] if exact is not None else ()), *(request.get("firstAvailable") or ())):
            if not part.get("allocationMode"):
                part["allocationMode"] = "ExactCount"
            if part["allocationMode"] == "ExactCount" and not part.get("count"):
                part["count"] = 1


def _validate_claim(spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path = f"{field}.devices.requests[{index}]"
        name = request.get("name") or ""
        if not name:
            errors.append(required(f"{path}.name"))
        else:
            errors += [invalid(f"{path}.name", name, text) for text in label_errors(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        exact, first = request.get("exactly"), request.get("firstAvailable")
        if exact is None and not first:
            text = "exactly one of `exactly` or `firstAvailable` is required"
            errors.append(required(path, text))
        elif exact is not None and not exact.get("deviceClassName"):
            errors.append(required(f"{path}.exactly.deviceClassName"))
    return errors


class ResourceClaimStrategy(BuiltinStrategy):
    has_status = True
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        _default_claim(section(obj, "spec"))
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_claim(obj.get("spec") or {}, "spec")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return immutable(obj.get("spec"), old.get("spec"), "spec")

    def prepare_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        """What a driver said of devices goes with them."""
        status = section(obj, "status")
        freed = _allocated(old.get("status") or {}) - _allocated(status)
        if freed and status.get("devices"):
            status["devices"] = [each for each in status["devices"] if _device(each) not in freed]
            if not status["devices"]:
                del status["devices"]

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        errors = access_errors(status, old.get("status") or {}, ctx)
        if status.get("reservedFor") and not status.get("allocation"):
            errors.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
        return errors


def _allocated(status: Json) -> set[tuple[str | None, ...]]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {_device(each) for each in results}


def _device(named: Json) -> tuple[str | None, ...]:
    return tuple(named.get(key) for key in ("driver", "pool", "device", "shareID"))


class ResourceClaimTemplateStrategy(BuiltinStrategy):
    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        section(spec, "metadata").pop("creationTimestamp", None)
        _default_claim(section(spec, "spec"))

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_claim((obj.get("spec") or {}).get("spec") or {}, "spec.spec")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return immutable(obj.get("spec"), old.get("spec"), "spec")


class ResourceSliceStrategy(BuiltinStrategy):
    has_generation = True
    selectable_fields = {  # noqa: RUF012 # never changed
        "spec.nodeName": lambda obj: (obj.get("spec") or {}).get("nodeName") or "",
        "spec.driver": lambda obj: (obj.get("spec") or {}).get("driver") or "",
    }

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        driver = spec.get("driver") or ""
        if not driver:
            errors.append(required("spec.driver"))
        else:
            errors += [invalid("spec.driver", driver, text) for text in subdomain_errors(driver)]
        places = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
        given = [key for key in places if spec.get(key)]
        text = f"exactly one of {', '.join(f'`{key}`' for key in places)} is required"
        if not given:
            errors.append(required("spec", text))
        elif len(given) > 1:
            errors.append(invalid_json("spec", {key: spec[key] for key in given}, text))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        for key in ("driver", "nodeName"):
            if not same(spec.get(key), before.get(key)):
                errors += immutable(spec.get(key), before.get(key), f"spec.{key}")
        name = (spec.get("pool") or {}).get("name"), (before.get("pool") or {}).get("name")
        return errors + immutable(*name, "spec.pool.name")
