"""Can a group grow from nothing? Only if somebody knows how large its machines would be.

An autoscaler looks at the nodes of a group to see what another one would offer. A group without nodes needs
another source: the instance class itself, or the catalogue of machine types that the cloud provider fills.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

Document = Mapping[str, Any]

_SIZES: Final[Mapping[str, tuple[str, ...]]] = {
    "DVPInstanceClass": ("virtualMachine.cpu.cores", "virtualMachine.memory.size"),
    "DynamixInstanceClass": ("numCPUs", "memory"),
    "VsphereInstanceClass": ("numCPUs", "memory"),
    "YandexInstanceClass": ("cores", "memory"),
    "ZvirtInstanceClass": ("numCPUs", "memory"),
}
"""Classes that say how large a machine is, and where."""
_TYPES: Final[Mapping[str, str]] = {
    "AWSInstanceClass": "instanceType",
    "AzureInstanceClass": "machineSize",
    "GCPInstanceClass": "machineType",
    "HuaweiCloudInstanceClass": "flavorName",
    "OpenStackInstanceClass": "flavorName",
    "VCDInstanceClass": "sizingPolicy",
}
"""Classes that name a machine type."""


def starts_from_zero(group: Document) -> bool:
    """Whether a group may have no nodes and may grow."""
    instances = (group.get("spec") or {}).get("cloudInstances") or {}
    return instances.get("minPerZone") == 0 and (instances.get("maxPerZone") or 0) > 0


def capacity_error(kind: str, name: str, spec: Document, machine_types: Collection[str]) -> str:
    """What is wrong with an instance class whose machines have no known size; empty if nothing.

    Every kind that a group may refer to is known; of others nothing is said.
    """
    if spec.get("capacity"):
        return ""
    if kind in _SIZES:
        is_known = all(_at(spec, path) for path in _SIZES[kind])
    elif kind in _TYPES:
        is_known = spec.get(_TYPES[kind]) in machine_types
    else:
        return ""
    if is_known:
        return ""
    return (
        f"{kind} capacity is not set and instance type could not be found in the built-it types. "
        f"ScaleFromZero would not work until you set a capacity spec into the {kind}/{name}"
    )


def _at(spec: Document, path: str) -> Any:
    found: Any = spec
    for field in path.split("."):
        found = found.get(field) if isinstance(found, Mapping) else None
    return found
