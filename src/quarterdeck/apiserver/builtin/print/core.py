"""Rows of core kinds: namespaces, configuration, nodes, services, storage, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quarterdeck.api.jsonobject import Json

from .text import NONE, UNKNOWN, UNSET, age, creation_age, labels_text


def _name(obj: Json) -> str:
    return obj["metadata"].get("name") or ""


def config_map_cells(obj: Json, now: datetime) -> list[Any]:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [_name(obj), count, creation_age(obj, now)]


def secret_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type") or "", len(obj.get("data") or ()), creation_age(obj, now)]


def namespace_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), (obj.get("status") or {}).get("phase") or "", creation_age(obj, now)]


_ROLE_PREFIX = "node-role.kubernetes.io/"


def node_cells(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    states: list[str] = []
    for item in status.get("conditions") or ():
        if item.get("type") == "Ready":
            states = ["Ready" if item.get("status") == "True" else "NotReady"]
    states = states or ["Unknown"]
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    roles: set[str] = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        _name(obj),
        ",".join(states),
        ",".join(sorted(roles)) or NONE,
        creation_age(obj, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _address(status: Json, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return address.get("address") or ""
    return NONE


def service_cells(obj: Json, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or ()
    ports = ",".join(_port_text(port) for port in spec.get("ports") or ())
    return [
        _name(obj),
        spec.get("type") or "",
        addresses[0] if addresses else NONE,
        _external_address(spec, obj.get("status") or {}),
        ports or NONE,
        creation_age(obj, now),
        labels_text(spec.get("selector")),
    ]


def _port_text(port: Json) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port') or 0}{node}/{port.get('protocol') or ''}"


def _external_address(spec: Json, status: Json) -> str:
    kind = spec.get("type")
    external: list[str] = spec.get("externalIPs") or []
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        given = balancer_addresses(status.get("loadBalancer") or {})
        return ",".join([*given, *external]) or "<pending>"
    return spec.get("externalName") or "" if kind == "ExternalName" else UNKNOWN


def balancer_addresses(balancer: Mapping[str, Any]) -> list[str]:
    """Addresses of a load balancer's status, sorted."""
    found = {item.get("ip") or item.get("hostname") or "" for item in balancer.get("ingress") or ()}
    return sorted(found - {""})


def endpoints_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), _endpoints_text(obj.get("subsets") or ()), creation_age(obj, now)]


def _endpoints_text(subsets: Sequence[Json]) -> str:
    if not subsets:
        return NONE
    shown: list[str] = []
    for subset in subsets:
        addresses = [address.get("ip") or "" for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            shown += addresses
        for port in ports:
            number = port.get("port") or 0
            shown += [f"[{item}]:{number}" if ":" in item else f"{item}:{number}" for item in addresses]
    if len(shown) > 3:
        return f"{','.join(shown[:3])} + {len(shown) - 3} more..."
    return ",".join(shown)


def endpoint_slice_cells(obj: Json, now: datetime) -> list[Any]:
    ports = [
        str(port["port"]) if port.get("port") is not None else port.get("name") or ""
        for port in obj.get("ports") or ()
    ]
    addresses = [item for endpoint in obj.get("endpoints") or () for item in endpoint.get("addresses") or ()]
    kind = obj.get("addressType") or ""
    return [_name(obj), kind, _first_three(ports), _first_three(addresses), creation_age(obj, now)]


def _first_three(items: Sequence[str]) -> str:
    if len(items) > 3:
        return f"{','.join(items[:3])} + {len(items) - 3} more..."
    return ",".join(items) or UNSET


def event_cells(obj: Json, now: datetime) -> list[Any]:
    """An Event in either of its two shapes."""
    get = obj.get
    involved = get("involvedObject") or get("regarding") or {}
    first_time = get("firstTimestamp") or get("deprecatedFirstTimestamp") or get("eventTime")
    last_time = get("lastTimestamp") or get("deprecatedLastTimestamp") or first_time
    count = get("count") or get("deprecatedCount") or 1
    if (series := get("series")) is not None:
        last_time, count = series.get("lastObservedTime"), series.get("count") or 0
    kind, name = (involved.get("kind") or "").lower(), involved.get("name")
    source = get("source") or get("deprecatedSource") or {}
    component = source.get("component") or get("reportingComponent") or get("reportingController") or ""
    host = source.get("host") or get("reportingInstance") or ""
    return [
        age(last_time, now),
        get("type") or "",
        get("reason") or "",
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath") or "",
        f"{component}, {host}" if host else component,
        (get("message") or get("note") or "").strip(),
        age(first_time, now),
        count,
        _name(obj),
    ]


_MODES = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)


def _modes_text(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES if mode in (modes or ()))


def claim_cells(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    volume = spec.get("volumeName") or ""
    capacity = (status.get("capacity") or {}).get("storage") or "0"
    old_class = (obj["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return [
        _name(obj),
        phase,
        volume,
        capacity if volume else "",
        _modes_text(status.get("accessModes")) if volume else "",
        old_class or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        creation_age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def volume_cells(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    claim = spec.get("claimRef")
    old_class = (obj["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        _modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase,
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "",
        old_class or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason") or "",
        creation_age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def quota_cells(obj: Json, now: datetime) -> list[Any]:
    status = obj.get("status") or {}
    used, hard = status.get("used") or {}, status.get("hard") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        column = limits if name.startswith("limits.") else requests
        column.append(f"{name}: {used.get(name) or '0'}/{hard[name]}")
    return [_name(obj), ", ".join(requests), ", ".join(limits), creation_age(obj, now)]


def component_status_cells(obj: Json, now: datetime) -> list[Any]:
    for item in obj.get("conditions") or ():
        if item.get("type") == "Healthy":
            state = "Healthy" if item.get("status") == "True" else "Unhealthy"
            return [_name(obj), state, item.get("message") or "", item.get("error") or ""]
    return [_name(obj), "Unknown", "", ""]
