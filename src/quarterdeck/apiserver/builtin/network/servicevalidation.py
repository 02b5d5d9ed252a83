"""What is wrong with a Service."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import parse_ip, port_errors, port_or_name, validate_ip
from quarterdeck.apiserver.metadata import (
    invalid_json,
    label_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_labels,
)
from quarterdeck.apiserver.resource.strategy import Json
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

from .servicekind import is_external_name, is_externally_accessible, is_headless, needs_health_check

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONE_PER_FAMILY: Final = "may specify no more than one IP for each IP family"


def validate_service(service: Json) -> list[FieldError]:
    spec: Mapping[str, Any] = service.get("spec") or {}
    get = spec.get
    errors: list[FieldError] = []
    kind = get("type") or ""
    ports: Sequence[Json] = get("ports") or ()
    headless = is_headless(spec)
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort"):
        if headless:
            text = f"may not be set to 'None' for {kind} services"
            errors.append(invalid("spec.clusterIPs[0]", "None", text))
    elif kind == "ExternalName":
        errors += [
            forbidden(f"spec.{key}", "may not be set for ExternalName services")
            for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if get(key)
        ]
        target = (get("externalName") or "").removesuffix(".")
        if target:
            errors += [invalid("spec.externalName", target, text) for text in subdomain_errors(target)]
        else:
            errors.append(required("spec.externalName"))
    errors += _validate_ports(ports)
    if selector := get("selector"):
        errors += validate_labels(selector, "spec.selector")
    errors += _validate_affinity(spec)
    errors += validate_addresses(spec)
    for index, address in enumerate(get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        errors += validate_ip(address, path) or validate_endpoint_ip(address, path)
    if not kind:
        errors.append(required("spec.type"))
    elif kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    if kind == "ClusterIP":
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]
    errors += _validate_port_uniqueness(ports)
    if ranges := get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            text = "may only be used when `type` is 'LoadBalancer'"
            errors.append(forbidden("spec.LoadBalancerSourceRanges", text))
        for index, item in enumerate(ranges):
            if not _is_cidr(item.strip()):
                text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                errors.append(invalid(f"spec.LoadBalancerSourceRanges[{index}]", item.strip(), text))
    for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if get(key) is not None and kind != "LoadBalancer":
            errors.append(forbidden(f"spec.{key}", "may only be used when `type` is 'LoadBalancer'"))
    if kind == "LoadBalancer" and (name := get("loadBalancerClass")) is not None:
        errors += [invalid("spec.loadBalancerClass", name, text) for text in qualified_name_errors(name)]
    return errors + _validate_traffic(spec)


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _validate_ports(ports: Sequence[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"{path}.name", name, text) for text in label_errors(name)]
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        number = port.get("port") or 0
        errors += [invalid(f"{path}.port", number, text) for text in port_errors(number)]
        protocol = port.get("protocol") or ""
        if protocol not in _PROTOCOLS:
            where = f"{path}.protocol"
            errors.append(not_supported(where, protocol, _PROTOCOLS) if protocol else required(where))
        errors += port_or_name(port.get("targetPort"), f"{path}.targetPort")
        if (application := port.get("appProtocol")) is not None:
            found = qualified_name_errors(application)
            errors += [invalid(f"{path}.appProtocol", application, text) for text in found]
    return errors


def _validate_port_uniqueness(ports: Sequence[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    node_ports: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        if port.get("nodePort"):
            key = (port.get("protocol"), port["nodePort"])
            if key in node_ports:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
            node_ports.add(key)
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            body = invalid_json("", shown, "").body.removesuffix(": ")
            body = body.replace("Invalid value", "Duplicate value", 1)
            errors.append(FieldError(duplicate("", "").kind, f"spec.ports[{index}]", body))
        seen.add(key)
    return errors


def _validate_affinity(spec: Mapping[str, Any]) -> list[FieldError]:
    affinity = spec.get("sessionAffinity") or ""
    path = "spec.sessionAffinity"
    if not affinity:
        return [required(path)]
    config = spec.get("sessionAffinityConfig")
    if affinity == "None":
        if config is not None:
            text = "must not be set when session affinity is None"
            return [forbidden("spec.sessionAffinityConfig", text)]
        return []
    if affinity != "ClientIP":
        return [not_supported(path, affinity, ("ClientIP", "None"))]
    timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if timeout is not None and not 0 < timeout <= 86400:
        text = "must be greater than 0 and less than 86400"
        return [invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, text)]
    return []


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


def _validate_traffic(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("externalTrafficPolicy") or ""
    path = "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if policy:
            errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    elif not policy:
        errors.append(required(path))
    elif policy not in _TRAFFIC:
        errors.append(not_supported(path, policy, _TRAFFIC))
    port = spec.get("healthCheckNodePort") or 0
    if not needs_health_check(spec):
        if port:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid("spec.healthCheckNodePort", port, text))
    elif not port:
        errors.append(required("spec.healthCheckNodePort"))
    else:
        errors += [invalid("spec.healthCheckNodePort", port, text) for text in port_errors(port)]
    inner = spec.get("internalTrafficPolicy")
    if inner is None:
        if spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
            errors.append(required("spec.internalTrafficPolicy"))
    elif inner not in _TRAFFIC:
        errors.append(not_supported("spec.internalTrafficPolicy", inner, _TRAFFIC))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


_FIXED: Final = "may not change once set"


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
    if address.is_loopback:
        errors.append(invalid(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if address.is_multicast and (text.startswith("224.0.0.") or text.lower().startswith("ff02:")):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(field, text, why))
    return errors
