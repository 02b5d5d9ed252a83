"""Node: taints, addresses, resources of the status."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.builtin.pod.placement import TAINT_EFFECTS
from quarterdeck.apiserver.builtin.pod.resources import quantity_or_zero, validate_quantity
from quarterdeck.apiserver.document.quantity import round_list
from quarterdeck.apiserver.metadata import invalid_json, label_value_errors, qualified_name_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import ErrorKind, FieldError, forbidden, invalid, not_supported, required

_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _unschedulable(node: Json) -> str:
    return "true" if (node.get("spec") or {}).get("unschedulable") else "false"


class NodeStrategy(BuiltinStrategy):
    metadata_checks = 4
    has_status = True
    selectable_fields = {"spec.unschedulable": _unschedulable}  # noqa: RUF012 # never changed

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if (cidr := spec.get("podCIDR")) and cidr not in (spec.get("podCIDRs") or ())[:1]:
            spec["podCIDRs"] = [cidr]
        elif not cidr and spec.get("podCIDRs"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        status = section(obj, "status")
        capacity, allocatable = status.get("capacity"), status.get("allocatable")
        if capacity:
            round_list(capacity)
            if allocatable is None:
                status["allocatable"] = dict(capacity)
        if allocatable:
            round_list(allocatable)
        if (conditions := status.get("conditions")) is not None:
            for condition in conditions:
                condition.setdefault("lastHeartbeatTime", None)
                condition.setdefault("lastTransitionTime", None)
        endpoint = section(section(status, "daemonEndpoints"), "kubeletEndpoint")
        endpoint.setdefault("Port", 0)
        info = section(status, "nodeInfo")
        for key in _NODE_INFO:
            info.setdefault(key, "")

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        if taints := spec.get("taints"):
            errors += _validate_taints(taints, "metadata.taints")
        errors += _validate_resources(obj)
        cidrs: Sequence[str] = spec.get("podCIDRs") or ()
        for index, cidr in enumerate(cidrs):
            try:
                ipaddress.ip_network(cidr, strict=False)
            except ValueError:
                text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                errors.append(invalid(f"spec.podCIDRs[{index}]", cidr, text))
        if len(cidrs) > 2 or (len(cidrs) == 2 and (":" in cidrs[0]) == (":" in cidrs[1])):
            text = "may specify no more than one CIDR for each IP family"
            errors.append(invalid_json("spec.podCIDRs", list(cidrs), text))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx) + self.validate_status_update(obj, old, ctx)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = _validate_resources(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        seen: list[Json] = []
        for index, address in enumerate((obj.get("status") or {}).get("addresses") or ()):
            if address in seen:
                shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
                errors.append(_duplicate(f"status.addresses[{index}]", shown))
            seen.append(address)
        if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
            text = 'node updates may not change podCIDR except from "" to valid'
            errors.append(forbidden("spec.podCIDRs", text))
        if before.get("providerID") and before["providerID"] != spec.get("providerID"):
            text = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", text))
        if taints := spec.get("taints"):
            errors += _validate_taints(taints, "metadata.taints")
        return errors


def _duplicate(field: str, shown: Json, detail: str = "") -> FieldError:
    """`Duplicate value` of an object under its internal Go names, with a detail where upstream has one."""
    body = invalid_json(field, shown, detail).body.replace("Invalid value", "Duplicate value", 1)
    return FieldError(ErrorKind.DUPLICATE, field, body.removesuffix(": "))


def _validate_taints(taints: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"{field}[{index}]"
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += [invalid(f"{path}.key", key, text) for text in qualified_name_errors(key)]
        if found := label_value_errors(value):
            errors.append(invalid(f"{path}.value", value, ";".join(found)))
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(_duplicate(path, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def _validate_resources(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    status = node.get("status") or {}
    for key in ("capacity", "allocatable"):
        for name, source in (status.get(key) or {}).items():
            quantity = quantity_or_zero(source)
            if quantity.nanos < 0 or quantity.nanos % 1_000_000_000:
                errors += validate_quantity(name, quantity, f"status.{key}.{name}")
    return errors
