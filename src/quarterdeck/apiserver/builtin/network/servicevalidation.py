"""What is wrong with a Service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import port_errors, validate_ip
from quarterdeck.apiserver.metadata import (
    qualified_name_errors,
    subdomain_errors,
    validate_labels,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

from .cidr import NOT_A_CIDR, parse_cidr
from .serviceaddress import validate_addresses, validate_endpoint_ip
from .servicekind import is_externally_accessible, is_headless, needs_health_check
from .serviceport import validate_port_uniqueness, validate_ports

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")


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
    errors += validate_ports(ports)
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
    errors += validate_port_uniqueness(ports)
    if ranges := get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            text = "may only be used when `type` is 'LoadBalancer'"
            errors.append(forbidden("spec.LoadBalancerSourceRanges", text))
        for index, item in enumerate(ranges):
            if parse_cidr(item.strip()) is None:
                path = f"spec.LoadBalancerSourceRanges[{index}]"
                errors.append(invalid(path, item.strip(), NOT_A_CIDR))
    for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if get(key) is not None and kind != "LoadBalancer":
            errors.append(forbidden(f"spec.{key}", "may only be used when `type` is 'LoadBalancer'"))
    if kind == "LoadBalancer" and (name := get("loadBalancerClass")) is not None:
        errors += [invalid("spec.loadBalancerClass", name, text) for text in qualified_name_errors(name)]
    return errors + _validate_traffic(spec)


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
