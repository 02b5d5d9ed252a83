"""Addresses, families and node ports of a Service: what is given, kept and dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.metadata import (
    invalid_json,
)
from quarterdeck.apiserver.resource.serviceallocator import PORT_IN_USE, AddressPool, Lease
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.apiserver.status import internal
from quarterdeck.apiserver.status import invalid as invalid_status
from quarterdeck.wire.fielderror import invalid

from .serviceaddress import validate_addresses
from .servicekind import (
    is_external_name,
    is_externally_accessible,
    is_headless,
    needs_health_check,
    needs_node_ports,
)


def normalize_addresses(spec: Json, old: Mapping[str, Any] | None) -> None:
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


def drop_type_dependent(spec: Json, old: Mapping[str, Any]) -> None:
    """A new type sheds what the old type needed, as long as the client did not touch it."""
    if not is_external_name(old) and is_external_name(spec):
        if all(spec.get(key) == old.get(key) for key in ("clusterIP", "clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _shed(spec, old, "ipFamilies", "ipFamilyPolicy")
    if is_external_name(spec):
        _shed(spec, old, "internalTrafficPolicy")
    if needs_node_ports(old) and not needs_node_ports(spec):
        known = {port.get("nodePort") for port in old.get("ports") or ()}
        ports = spec.get("ports") or ()
        if all(port.get("nodePort") in known for port in ports if port.get("nodePort")):
            for port in ports:
                port.pop("nodePort", None)
    if needs_health_check(old) and not needs_health_check(spec):
        _shed(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _shed(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_externally_accessible(old) and not is_externally_accessible(spec):
        _shed(spec, old, "externalTrafficPolicy")


def _shed(spec: Json, old: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if spec.get(key) == old.get(key):
            spec.pop(key, None)


def keep_allocated(spec: Json, old: Mapping[str, Any]) -> None:
    """An update that leaves allocated values out keeps them."""
    if not is_external_name(old) and not is_external_name(spec):
        if not spec.get("clusterIP") and old.get("clusterIP"):
            spec["clusterIP"] = old["clusterIP"]
        if not spec.get("clusterIPs") and old.get("clusterIPs"):
            spec["clusterIPs"] = list(old["clusterIPs"])
    if needs_node_ports(old) and needs_node_ports(spec):
        before = {port.get("name") or "": port.get("nodePort") for port in old.get("ports") or ()}
        ports = spec.get("ports") or ()
        used = {port.get("nodePort") for port in ports} & set(before.values())
        for port in ports:
            if not port.get("nodePort"):
                number = before.get(port.get("name") or "")
                if number and number not in used:
                    port["nodePort"] = number
    if needs_health_check(old) and needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort")


def allocate(service: Json, old: Json | None, ctx: WriteContext) -> None:
    """Fills address families, cluster addresses and node ports in place; raises what upstream answers."""
    spec = service["spec"]
    before: Mapping[str, Any] = (old or {}).get("spec") or {}
    meta = service["metadata"]
    owner = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
    name = meta.get("name") or ""
    if not is_external_name(spec):
        _fill_families(spec, before if old else None, name)
    wants_address = not is_external_name(spec) and not is_headless(spec)
    if before.get("clusterIPs") and spec.get("clusterIPs") == before["clusterIPs"]:
        wants_address = False
    wants_ports = needs_node_ports(spec) or any(port.get("nodePort") for port in spec.get("ports") or ())
    if not wants_address and not wants_ports:
        return
    pool = ctx.cluster.service_allocator or AddressPool.from_services(ctx.cluster.list("", "services"))
    lease = pool.lease(owner)
    ctx.at_end(lease.end)
    if wants_address:
        _allocate_addresses(spec, name, lease, changing=bool(before.get("clusterIPs")))
    taken = _allocate_ports(spec, before, name, lease) if wants_ports else set()
    if needs_health_check(spec):
        _allocate_health_check(spec, before, taken, lease)


def _fill_families(spec: Json, old: Mapping[str, Any] | None, name: str) -> None:
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        if old and old.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = old["ipFamilyPolicy"]
        else:
            spec["ipFamilyPolicy"] = "RequireDualStack" if selectorless else "SingleStack"
    errors = validate_addresses(spec)
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


def _allocate_addresses(spec: Json, name: str, lease: Lease, *, changing: bool) -> None:
    addresses: list[str] = spec.get("clusterIPs") or []
    wanted = addresses[0] if addresses else ""
    if wanted:
        # a change of a set address is refused by validation
        why = "" if changing else lease.take_address(wanted)
        if why:
            text = f"failed to allocate IP {wanted}: {why}"
            raise invalid_status("Service", "", name, [invalid_json("spec.clusterIPs", addresses, text)])
        return
    try:
        address = lease.next_address()
    except LookupError as error:
        raise internal(f'failed to allocate a serviceIP for Service "{name}": {error}') from error
    spec["clusterIP"] = address
    spec["clusterIPs"] = [address]


def _allocate_ports(spec: Json, old: Mapping[str, Any], name: str, lease: Lease) -> set[int]:
    """Fills in the node ports; returns all that the Service has."""
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
                number = number or lease.next_port()
            except LookupError as error:
                raise internal(f"failed to allocate a nodePort: {error}") from error
            port["nodePort"] = number
            by_port[port.get("port") or 0] = number
        elif number not in kept and number not in taken:
            is_own = number == old.get("healthCheckNodePort")
            if why := PORT_IN_USE if is_own else lease.take_port(number):
                path = f"spec.ports[{index}].nodePort"
                raise invalid_status("Service", "", name, [invalid(path, number, why)])
        taken.add(number)
    return taken


def _allocate_health_check(spec: Json, old: Mapping[str, Any], node_ports: set[int], lease: Lease) -> None:
    wanted = spec.get("healthCheckNodePort")
    if wanted and needs_health_check(old):
        return  # it is kept; a change is refused by validation
    if wanted:
        if why := PORT_IN_USE if wanted in node_ports else lease.take_port(wanted):
            raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}")
        return
    try:
        spec["healthCheckNodePort"] = lease.next_port()
    except LookupError as error:
        raise internal(f"failed to allocate a HealthCheck NodePort: {error}") from error
