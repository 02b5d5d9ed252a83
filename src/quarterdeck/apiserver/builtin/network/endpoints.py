"""Endpoints and EndpointSlice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import parse_ip, port_errors, validate_ip
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable, same
from quarterdeck.apiserver.metadata import (
    label_errors,
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, not_supported, required, too_many

from .serviceaddress import validate_endpoint_ip

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
ENDPOINTS_WARNING: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


class EndpointsStrategy(BuiltinStrategy):
    allows_create_on_update = True

    def default(self, obj: Json) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for key in ("addresses", "notReadyAddresses"):
                for position, address in enumerate(subset.get(key) or ()):
                    errors += _validate_address(address, f"{path}.{key}[{position}]")
            ports = subset.get("ports") or ()
            for position, port in enumerate(ports):
                at = f"{path}.ports[{position}]"
                errors += _validate_port(port, at, needs_name=len(ports) > 1)
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        if same(obj.get("subsets"), old.get("subsets")):
            return []
        return self.validate_create(obj, ctx)


def _validate_address(address: Json, field: str) -> list[FieldError]:
    text = address.get("ip") or ""
    errors = validate_ip(text, f"{field}.ip")
    if host := address.get("hostname"):
        errors += [invalid(f"{field}.hostname", host, found) for found in label_errors(host)]
    if (node := address.get("nodeName")) is not None:
        errors += [invalid(f"{field}.nodeName", node, found) for found in subdomain_errors(node)]
    return errors + validate_endpoint_ip(text, f"{field}.ip")


def _validate_port(port: Json, field: str, *, needs_name: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name") or ""
    if name:
        errors += [invalid(f"{field}.name", name, text) for text in label_errors(name)]
    elif needs_name:
        errors.append(required(f"{field}.name"))
    number = port.get("port") or 0
    errors += [invalid(f"{field}.port", number, text) for text in port_errors(number)]
    protocol = port.get("protocol") or ""
    if protocol not in _PROTOCOLS:
        path = f"{field}.protocol"
        errors.append(not_supported(path, protocol, _PROTOCOLS) if protocol else required(path))
    if (application := port.get("appProtocol")) is not None:
        found = qualified_name_errors(application)
        errors += [invalid(f"{field}.appProtocol", application, text) for text in found]
    return errors


class EndpointSliceStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        for port in obj.get("ports") or ():
            if port.get("name") is None:
                port["name"] = ""
            if port.get("protocol") is None:
                port["protocol"] = "TCP"
        for endpoint in obj.get("endpoints") or ():
            if endpoint.get("conditions") is None:
                endpoint["conditions"] = {}
        for key in ("endpoints", "ports"):
            if not obj.get(key):
                obj[key] = None  # shown even when there are none

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        self.prepare_create(obj, ctx)

    def generation_changed(self, obj: Json, old: Json) -> bool:
        if not same(obj["metadata"].get("labels"), old["metadata"].get("labels")):
            return True
        return super().generation_changed(obj, old)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        kind = obj.get("addressType") or ""
        if not kind:
            errors.append(required("addressType"))
        elif kind not in ("FQDN", "IPv4", "IPv6"):
            errors.append(not_supported("addressType", kind, ("FQDN", "IPv4", "IPv6")))
        errors += _validate_slice_ports(obj.get("ports") or ())
        return errors + _validate_slice_endpoints(obj.get("endpoints") or (), kind)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        return errors + immutable(obj.get("addressType"), old.get("addressType"), "addressType")

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        if old is None and obj.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"]
        return []


def _validate_slice_ports(ports: Sequence[Json]) -> list[FieldError]:
    if len(ports) > 20000:
        return [too_many("ports", len(ports), 20000)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"ports[{index}].name", name, text) for text in label_errors(name)]
        if name in names:
            errors.append(duplicate(f"ports[{index}].name", name))
        names.add(name)
        protocol = port.get("protocol")
        if protocol not in _PROTOCOLS:
            path = f"ports[{index}].protocol"
            errors.append(not_supported(path, protocol, _PROTOCOLS) if protocol else required(path))
        if (application := port.get("appProtocol")) is not None:
            found = qualified_name_errors(application)
            errors += [invalid(f"ports[{index}].appProtocol", application, text) for text in found]
    return errors


def _validate_slice_endpoints(endpoints: Sequence[Json], kind: str) -> list[FieldError]:
    if len(endpoints) > 1000:
        return [too_many("endpoints", len(endpoints), 1000)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > 100:
            errors.append(too_many(f"{path}.addresses", len(addresses), 100))
        for position, address in enumerate(addresses):
            errors += _validate_slice_address(address, kind, f"{path}.addresses", position)
        if (node := endpoint.get("nodeName")) is not None:
            errors += [invalid(f"{path}.nodeName", node, text) for text in subdomain_errors(node)]
        if (host := endpoint.get("hostname")) is not None:
            errors += [invalid(f"{path}.hostname", host, text) for text in label_errors(host)]
        hints = endpoint.get("hints") or {}
        for key, limit in (("forZones", 8), ("forNodes", 8)):
            listed = hints.get(key) or ()
            if len(listed) > limit:
                errors.append(too_many(f"{path}.hints.{key}", len(listed), limit))
                break
            names: set[str] = set()
            for position, hint in enumerate(listed):
                at = f"{path}.hints.{key}[{position}].name"
                name = hint.get("name") or ""
                if name in names:
                    errors.append(duplicate(at, name))
                names.add(name)
                check = label_value_errors if key == "forZones" else subdomain_errors
                errors += [invalid(at, name, text) for text in check(name)]
    return errors


def _validate_slice_address(address: str, kind: str, field: str, index: int) -> list[FieldError]:
    at = f"{field}[{index}]"
    if kind in ("IPv4", "IPv6"):
        if errors := validate_ip(address, at):
            return errors
        parsed = parse_ip(address)
        wrong = parsed is not None and f"IPv{parsed.version}" != kind
        errors = [invalid(field, address, f"must be an {kind} address")] if wrong else []
        return errors + validate_endpoint_ip(address, at)
    if kind == "FQDN":
        name = address.removesuffix(".")
        if found := subdomain_errors(name):
            return [invalid(at, name, ",".join(found))]
        if "." not in name:
            text = "should be a domain with at least two segments separated by dots"
            return [invalid(at, name, text)]
    return []
