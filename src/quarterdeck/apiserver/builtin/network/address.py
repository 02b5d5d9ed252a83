"""IPAddress and ServiceCIDR: the addresses of Services as objects."""

from __future__ import annotations

import ipaddress

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, BuiltinStrategy, immutable, section
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, required

from .cidr import NOT_A_CIDR, parse_cidr


class IPAddressStrategy(BuiltinStrategy):
    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        try:
            canonical = str(ipaddress.ip_address(name))
        except ValueError:
            return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        return [] if canonical == name else [f'must be in canonical form ("{canonical}")']

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        parent = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [required("spec.parentRef")]
        return [required(f"spec.parentRef.{key}") for key in ("resource", "name") if not parent.get(key)]

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        parents = (obj.get("spec") or {}).get("parentRef"), (old.get("spec") or {}).get("parentRef")
        return self.validate_create(obj, ctx) + immutable(*parents, "spec.parentRef")


class ServiceCIDRStrategy(BuiltinStrategy):
    has_status = True
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        section(obj, "spec")
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        cidrs = (obj.get("spec") or {}).get("cidrs") or ()
        if not cidrs:
            return [required("spec.cidrs", "at least one CIDR required")]
        return [
            invalid(
                f"spec.cidrs[{index}]",
                cidr,
                NOT_A_CIDR,
            )
            for index, cidr in enumerate(cidrs)
            if parse_cidr(cidr) is None
        ]

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        cidrs = (obj.get("spec") or {}).get("cidrs"), (old.get("spec") or {}).get("cidrs")
        return self.validate_create(obj, ctx) + immutable(*cidrs, "spec.cidrs")
