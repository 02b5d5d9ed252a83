"""Addresses of a Service: its own, in which families, of its load balancer, and what of them may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import parse_ip, validate_ip
from quarterdeck.apiserver.metadata import (
    invalid_json,
    subdomain_errors,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from quarterdeck.wire.localnode import POD_NETWORK

from .servicekind import is_external_name, is_headless

_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ONE_PER_FAMILY: Final = "may specify no more than one IP for each IP family"
_FIXED: Final = "may not change once set"


def validate_addresses(spec: Mapping[str, Any]) -> list[FieldError]:
    if is_external_name(spec):
        return []
    errors: list[FieldError] = []
    address = spec.get("clusterIP") or ""
    addresses: list[str] = spec.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if address:
        if not addresses:
            errors.append(required(path))
        elif addresses[0] != address:
            errors.append(invalid_json(path, addresses, "first value must match `clusterIP`"))
    elif addresses:
        errors.append(invalid_json(path, addresses, "must be empty when `clusterIP` is not specified"))
    families: list[str] = spec.get("ipFamilies") or []
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    broken = False
    for index, item in enumerate(addresses):
        if index == 0 and item == "None":
            if len(addresses) > 1:
                broken = True
                errors.append(invalid_json(path, addresses, "'None' must be the first and only value"))
            continue
        found = validate_ip(item, f"{path}[{index}]")
        broken = broken or bool(found)
        errors += found
    if len(addresses) > 2:
        errors.append(invalid_json(path, addresses, "may only hold up to 2 values"))
    if broken:
        return errors
    if len(addresses) > 1 and len({":" in item for item in addresses}) != 2:
        errors.append(invalid_json(path, addresses, _ONE_PER_FAMILY))
    if not is_headless(spec):
        for index, (item, family) in enumerate(zip(addresses, families, strict=False)):
            if family in _FAMILIES and (family == "IPv6") != (":" in item):
                text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid(f"{path}[{index}]", item, text))
    return errors


def validate_address_changes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    if is_headless(spec) and is_headless(old):
        return []
    new: list[str] = spec.get("clusterIPs") or []
    were: list[str] = old.get("clusterIPs") or []
    if len(new) == len(were):
        return [
            invalid_json(f"spec.clusterIPs[{index}]", new, _FIXED)
            for index, address in enumerate(were)
            if address != new[index]
        ]
    errors: list[FieldError] = []
    if len(were) > len(new):
        if not new:
            text = "primary clusterIP can not be unset"
            errors.append(invalid_json("spec.clusterIPs[0]", None, text))
        elif new[0] != were[0]:
            errors.append(invalid_json("spec.clusterIPs[0]", new, _FIXED))
        if len(new) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
            text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
            errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    elif were and new[0] != were[0]:
        errors.append(invalid_json("spec.clusterIPs[0]", new, _FIXED))
    return errors


def validate_family_changes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    if is_headless(spec) or is_headless(old):
        return []
    new: list[str] = spec.get("ipFamilies") or []
    were: list[str] = old.get("ipFamilies") or []
    path = "spec.ipFamilies[0]"
    if len(new) == len(were):
        return [invalid_json(path, new, _FIXED) for index, family in enumerate(were) if family != new[index]]
    if new and were and new[0] != were[0]:
        return [invalid_json(path, spec.get("clusterIPs"), _FIXED)]
    return []


def validate_balancer(balancer: Mapping[str, Any], spec: Mapping[str, Any]) -> list[FieldError]:
    path = "status.loadBalancer.ingress"
    ingresses: Sequence[Json] = balancer.get("ingress") or ()
    if ingresses and spec.get("type") != "LoadBalancer":
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors: list[FieldError] = []
    for index, ingress in enumerate(ingresses):
        at = f"{path}[{index}]"
        address, mode = ingress.get("ip"), ingress.get("ipMode")
        if address:
            errors += validate_ip(address, f"{at}.ip")
        if mode is None:
            if address:
                errors.append(required(f"{at}.ipMode", "must be specified when `ip` is set"))
        elif not address:
            errors.append(forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set"))
        elif mode not in ("Proxy", "VIP"):
            errors.append(not_supported(f"{at}.ipMode", mode, ("Proxy", "VIP")))
        if host := ingress.get("hostname"):
            errors += [invalid(f"{at}.hostname", host, text) for text in subdomain_errors(host)]
            if parse_ip(host):
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def validate_endpoint_ip(text: str, field: str) -> list[FieldError]:
    """An address that traffic is sent to: no loopback, link-local or unspecified one."""
    address = parse_ip(text)
    if address is None:
        return [invalid(field, text, "must be a valid IP address")]
    errors: list[FieldError] = []
    if address.is_unspecified:
        errors.append(invalid(field, text, f"may not be unspecified ({text})"))
    if address.is_loopback and address not in POD_NETWORK:  # a deviation: see docs/adr/0032-local-node.md
        errors.append(invalid(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if address.is_multicast and (text.startswith("224.0.0.") or text.lower().startswith("ff02:")):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(field, text, why))
    return errors
