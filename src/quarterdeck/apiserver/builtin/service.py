"""Service: defaults, address families, cluster addresses and node ports, validation."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from quarterdeck.apiserver.metadata import (
    IMMUTABLE,
    invalid_json,
    label_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_labels,
)
from quarterdeck.apiserver.status import internal
from quarterdeck.apiserver.status import invalid as invalid_status
from quarterdeck.apiserver.strategy import Json, WriteContext

from .formats import parse_ip, port_errors, port_or_name, validate_ip
from .kind import BuiltinStrategy, section, text_at
from .serviceallocator import AddressPool, ServiceAllocator

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONE_PER_FAMILY: Final = "may specify no more than one IP for each IP family"


def _is_headless(spec: Mapping[str, Any]) -> bool:
    addresses: Sequence[str] = spec.get("clusterIPs") or ()
    return len(addresses) == 1 and addresses[0] == "None"


def _is_external_name(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "ExternalName"


def _needs_node_ports(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _needs_health_check(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _externally_accessible(spec: Mapping[str, Any]) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


class ServiceStrategy(BuiltinStrategy):
    has_status = True
    allows_create_on_update = True
    selectable_fields = {  # noqa: RUF012 # never changed
        "spec.clusterIP": text_at("spec", "clusterIP"),
        "spec.type": text_at("spec", "type"),
    }

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return label_errors(name, prefix=prefix)

    def abandoned(self, obj: Json, ctx: WriteContext) -> None:
        pool = ctx.cluster.service_allocator
        if pool is None or ctx.dry_run:
            return
        meta = obj["metadata"]
        namespace, name = meta.get("namespace") or "", meta.get("name") or ""
        stored = ctx.cluster.get("", "services", namespace, name)
        if stored is not None:
            pool.hold(stored)
        else:
            pool.release(f"{namespace}/{name}")

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        get = spec.get
        affinity = get("sessionAffinity")
        if not affinity:
            affinity = spec["sessionAffinity"] = "None"
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP":
            client = (get("sessionAffinityConfig") or {}).get("clientIP") or {}
            if client.get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        if not get("type"):
            spec["type"] = "ClusterIP"
        for port in get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if not port.get("targetPort") and "port" in port:
                port["targetPort"] = port["port"]
        if _externally_accessible(spec) and not get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if get("internalTrafficPolicy") is None and not _is_external_name(spec):
            spec["internalTrafficPolicy"] = "Cluster"
        status = section(obj, "status")
        balancer = section(status, "loadBalancer")
        if get("type") == "LoadBalancer":
            if get("allocateLoadBalancerNodePorts") is None:
                spec["allocateLoadBalancerNodePorts"] = True
            for ingress in balancer.get("ingress") or ():
                if ingress.get("ip") and ingress.get("ipMode") is None:
                    ingress["ipMode"] = "VIP"

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = section(obj, "spec")
        _normalize_addresses(spec, None)
        allocate(obj, None, ctx)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        spec, before = section(obj, "spec"), old.get("spec") or {}
        _drop_type_dependent(spec, before)
        if spec.get("type") != "LoadBalancer":
            section(obj, "status")["loadBalancer"] = {}
        _keep_allocated(spec, before)
        _normalize_addresses(spec, before)
        allocate(obj, old, ctx)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate(obj)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors: list[FieldError] = []
        if not _is_external_name(spec) and not _is_external_name(before):
            errors += _validate_address_changes(spec, before)
            errors += _validate_family_changes(spec, before)
        if spec.get("type") == before.get("type") == "LoadBalancer":
            name = spec.get("loadBalancerClass")
            if name != before.get("loadBalancerClass"):
                errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
        both_checked = _needs_health_check(spec) and _needs_health_check(before)
        if both_checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
        return errors + _validate(obj)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        return _validate_balancer(balancer, obj.get("spec") or {})

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        spec = obj.get("spec") or {}
        kind, external = spec.get("type"), spec.get("externalIPs")
        warnings: list[str] = []
        if headless := kind == "ClusterIP" and spec.get("clusterIP") == "None":
            ignored = {
                "loadBalancerIP": spec.get("loadBalancerIP"),
                "externalIPs": external,
                "SessionAffinity": spec.get("sessionAffinity") not in (None, "None"),
            }
            warnings += [
                f"spec.{key} is ignored for headless services" for key, given in ignored.items() if given
            ]
        if external and not headless and kind != "ExternalName":
            warnings.append(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
            )
        if external and kind == "ExternalName":
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if kind != "ExternalName" and spec.get("externalName"):
            warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return warnings


def _normalize_addresses(spec: Json, old: Mapping[str, Any] | None) -> None:
    """Make clusterIP and clusterIPs agree when a client speaks of only one of them."""
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if old is None:
        if address and not addresses:
            spec["clusterIPs"] = [address]
        return
    was, were = old.get("clusterIP") or "", old.get("clusterIPs") or []
    if were and not addresses and was == address:
        spec["clusterIPs"] = list(were)
    elif was != address and addresses == were:
        if was and not address:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [address]


def _drop_type_dependent(spec: Json, old: Mapping[str, Any]) -> None:
    """A new type sheds what the old type needed, as long as the client did not touch it."""
    if not _is_external_name(old) and _is_external_name(spec):
        if all(spec.get(key) == old.get(key) for key in ("clusterIP", "clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _shed(spec, old, "ipFamilies", "ipFamilyPolicy")
    if _is_external_name(spec):
        _shed(spec, old, "internalTrafficPolicy")
    if _needs_node_ports(old) and not _needs_node_ports(spec):
        known = {port.get("nodePort") for port in old.get("ports") or ()}
        ports = spec.get("ports") or ()
        if all(port.get("nodePort") in known for port in ports if port.get("nodePort")):
            for port in ports:
                port.pop("nodePort", None)
    if _needs_health_check(old) and not _needs_health_check(spec):
        _shed(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _shed(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _externally_accessible(old) and not _externally_accessible(spec):
        _shed(spec, old, "externalTrafficPolicy")


def _shed(spec: Json, old: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if spec.get(key) == old.get(key):
            spec.pop(key, None)


def _keep_allocated(spec: Json, old: Mapping[str, Any]) -> None:
    """An update that leaves allocated values out keeps them."""
    if not _is_external_name(old) and not _is_external_name(spec):
        if not spec.get("clusterIP") and old.get("clusterIP"):
            spec["clusterIP"] = old["clusterIP"]
        if not spec.get("clusterIPs") and old.get("clusterIPs"):
            spec["clusterIPs"] = list(old["clusterIPs"])
    if _needs_node_ports(old) and _needs_node_ports(spec):
        before = {port.get("name") or "": port.get("nodePort") for port in old.get("ports") or ()}
        ports = spec.get("ports") or ()
        used = {port.get("nodePort") for port in ports} & set(before.values())
        for port in ports:
            if not port.get("nodePort"):
                number = before.get(port.get("name") or "")
                if number and number not in used:
                    port["nodePort"] = number
    if _needs_health_check(old) and _needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort")


def allocate(service: Json, old: Json | None, ctx: WriteContext) -> None:
    """Fills address families, cluster addresses and node ports in place; raises what upstream answers."""
    spec = service["spec"]
    before: Mapping[str, Any] = (old or {}).get("spec") or {}
    meta = service["metadata"]
    owner = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
    name = meta.get("name") or ""
    if not _is_external_name(spec):
        _fill_families(spec, before if old else None, name)
    wants_address = not _is_external_name(spec) and not _is_headless(spec)
    if before.get("clusterIPs") and spec.get("clusterIPs") == before["clusterIPs"]:
        wants_address = False
    wants_ports = _needs_node_ports(spec) or any(port.get("nodePort") for port in spec.get("ports") or ())
    if not wants_address and not wants_ports:
        return
    allocator = _allocator(ctx)
    if wants_address:
        _allocate_addresses(spec, owner, name, allocator, changing=bool(before.get("clusterIPs")))
    if wants_ports:
        _allocate_ports(spec, before, owner, name, allocator)


def _allocator(ctx: WriteContext) -> ServiceAllocator:
    given = ctx.cluster.service_allocator
    if given is not None and not ctx.dry_run:
        return given
    return AddressPool.from_services(ctx.cluster.list("", "services"))


def _fill_families(spec: Json, old: Mapping[str, Any] | None, name: str) -> None:
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        if old and old.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = old["ipFamilyPolicy"]
        else:
            spec["ipFamilyPolicy"] = "RequireDualStack" if selectorless else "SingleStack"
    errors = _validate_addresses(spec)
    if errors:
        raise invalid_status("Service", "", name, errors)
    policy = spec["ipFamilyPolicy"]
    addresses: list[str] = spec.get("clusterIPs") or []
    families: list[str] = list(spec.get("ipFamilies") or [])
    if policy == "SingleStack":
        text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
        if len(addresses) == 2:
            errors.append(invalid("spec.ipFamilyPolicy", policy, text.format("cluster IPs")))
        if len(families) == 2:
            errors.append(invalid("spec.ipFamilyPolicy", policy, text.format("IP families")))
    for index, address in enumerate(addresses):
        if address == "None":
            break
        if index >= len(families):
            if ":" in address:
                path = f"spec.clusterIPs[{index}]"
                errors.append(invalid_json(path, addresses, "IPv6 is not configured on this cluster"))
            else:
                families.append("IPv4")
    if errors:
        raise invalid_status("Service", "", name, errors)
    if selectorless:
        families = families or ["IPv4"]
        if len(families) < 2 and policy != "SingleStack":
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families
        return
    if policy == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    errors += [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family != "IPv4"
    ]
    if errors:
        raise invalid_status("Service", "", name, errors)
    spec["ipFamilies"] = families or ["IPv4"]


def _allocate_addresses(
    spec: Json, owner: str, name: str, allocator: ServiceAllocator, *, changing: bool
) -> None:
    addresses: list[str] = spec.get("clusterIPs") or []
    wanted = addresses[0] if addresses else ""
    if wanted:
        # a change of a set address is refused by validation
        why = "" if changing else allocator.take_address(wanted, owner)
        if why:
            text = f"failed to allocate IP {wanted}: {why}"
            raise invalid_status("Service", "", name, [invalid_json("spec.clusterIPs", addresses, text)])
        return
    try:
        address = allocator.next_address(owner)
    except LookupError as error:
        raise internal(f'failed to allocate a serviceIP for Service "{name}": {error}') from error
    spec["clusterIP"] = address
    spec["clusterIPs"] = [address]


def _allocate_ports(
    spec: Json, old: Mapping[str, Any], owner: str, name: str, allocator: ServiceAllocator
) -> None:
    kept = {port.get("nodePort") for port in old.get("ports") or ()}
    automatic = spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    ports = spec.get("ports") or ()
    by_port: dict[int, int] = {}
    for port in ports:
        if port.get("nodePort") and port.get("port") not in by_port:
            by_port[port.get("port") or 0] = port["nodePort"]
    taken: set[int] = set()
    for index, port in enumerate(ports):
        number = port.get("nodePort") or 0
        if not number:
            if not automatic:
                continue
            number = by_port.get(port.get("port") or 0, 0)
            try:
                number = number or allocator.next_port(owner)
            except LookupError as error:
                raise internal(f"failed to allocate a nodePort: {error}") from error
            port["nodePort"] = number
            by_port[port.get("port") or 0] = number
        elif number not in kept and number not in taken and (why := allocator.take_port(number, owner)):
            path = f"spec.ports[{index}].nodePort"
            raise invalid_status("Service", "", name, [invalid(path, number, why)])
        taken.add(number)
    if _needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        try:
            spec["healthCheckNodePort"] = allocator.next_port(owner)
        except LookupError as error:
            raise internal(f"failed to allocate a HealthCheck NodePort: {error}") from error


def _validate(service: Json) -> list[FieldError]:
    spec: Mapping[str, Any] = service.get("spec") or {}
    get = spec.get
    errors: list[FieldError] = []
    kind = get("type") or ""
    ports: Sequence[Json] = get("ports") or ()
    headless = _is_headless(spec)
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
    errors += _validate_addresses(spec)
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


def _validate_addresses(spec: Mapping[str, Any]) -> list[FieldError]:
    if _is_external_name(spec):
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
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
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
    if not _is_headless(spec):
        for index, (item, family) in enumerate(zip(addresses, families, strict=False)):
            if family in _FAMILIES and (family == "IPv6") != (":" in item):
                text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid(f"{path}[{index}]", item, text))
    return errors


def _validate_traffic(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("externalTrafficPolicy") or ""
    path = "spec.externalTrafficPolicy"
    if not _externally_accessible(spec):
        if policy:
            errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    elif not policy:
        errors.append(required(path))
    elif policy not in _TRAFFIC:
        errors.append(not_supported(path, policy, _TRAFFIC))
    port = spec.get("healthCheckNodePort") or 0
    if not _needs_health_check(spec):
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


def _validate_address_changes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    if _is_headless(spec) and _is_headless(old):
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


def _validate_family_changes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    if _is_headless(spec) or _is_headless(old):
        return []
    new: list[str] = spec.get("ipFamilies") or []
    were: list[str] = old.get("ipFamilies") or []
    path = "spec.ipFamilies[0]"
    if len(new) == len(were):
        return [invalid_json(path, new, _FIXED) for index, family in enumerate(were) if family != new[index]]
    if new and were and new[0] != were[0]:
        return [invalid_json(path, spec.get("clusterIPs"), _FIXED)]
    return []


def _validate_balancer(balancer: Mapping[str, Any], spec: Mapping[str, Any]) -> list[FieldError]:
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
