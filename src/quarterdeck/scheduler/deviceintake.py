"""Dynamic resource allocation: resource slices, device classes and claims as a snapshot has them.

The selectors of classes and claims are expressions; whether one accepts a device is asked of the caller.
Devices that only a part of can be had, or that depend on others (counters, shared capacity, conditions to be
waited for), are left out: nobody gets what could not be honoured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import from_dict, to_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.device import (
    AllocatedDevice,
    Allocation,
    ClaimInfo,
    DeviceConstraintInfo,
    DeviceId,
    DeviceInfo,
    DeviceRequestInfo,
    Devices,
)

Document = Mapping[str, Any]
_ALL: Final = "All"
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
_UNSUPPORTED: Final = (
    "consumesCounters",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindsToNode",
    "nodeAllocatableResourceMappings",
)
_VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")


class SliceDevice(msgspec.Struct, frozen=True):
    """A device, and all that selectors may ask about it."""

    info: DeviceInfo
    document: Document
    taints: tuple[Document, ...] = ()


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a pool of devices."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    """Slices that the pool has."""
    node: str = ""
    devices: tuple[SliceDevice, ...] = ()
    left_out: int = 0
    """Devices that nobody gets."""


class DeviceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The devices and claims of a cluster."""

    devices: Devices = Devices()
    claims: tuple[ClaimInfo, ...] = ()
    problems: Mapping[tuple[str, str], str] = {}
    """Why a claim cannot be met whatever there is, by namespace and name."""
    slices: tuple[Slice, ...] = ()
    """What the devices are from."""


def read_slice(document: Document) -> Slice:
    """A resource slice."""
    spec = document.get("spec") or {}
    pool = spec.get("pool") or {}
    driver, pool_name = spec.get("driver", ""), pool.get("name", "")
    listed = spec.get("devices") or ()
    devices = [each for each in listed if not any(each.get(field) for field in _UNSUPPORTED)]
    return Slice(
        name=document["metadata"]["name"],
        driver=driver,
        pool=pool_name,
        generation=pool.get("generation") or 0,
        count=pool.get("resourceSliceCount") or 1,
        node=spec.get("nodeName") or "",
        devices=tuple(_device(each, spec, DeviceId(driver, pool_name, each["name"])) for each in devices),
        left_out=len(listed) - len(devices),
    )


def _device(device: Document, spec: Document, identity: DeviceId) -> SliceDevice:
    place = device if spec.get("perDeviceNodeSelection") else spec
    selector = place.get("nodeSelector")
    attributes = device.get("attributes") or {}
    info = DeviceInfo(
        id=identity,
        node=place.get("nodeName") or "",
        nodes=from_dict(selector, NodeSelector) if selector else None,
        attributes=tuple(
            sorted(
                (_full_name(name, identity.driver), _value_text(value)) for name, value in attributes.items()
            )
        ),
    )
    return SliceDevice(info, device, tuple(device.get("taints") or ()))


def _full_name(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _value_text(value: Document) -> str:
    kind = next((each for each in _VALUES if each in value), "")
    return f"{kind}:{value.get(kind)}"


def current_slices(slices: Iterable[Slice]) -> list[Slice]:
    """Those of the newest generation of every pool that is complete."""
    pools: dict[tuple[str, str], list[Slice]] = {}
    for each in slices:
        pools.setdefault((each.driver, each.pool), []).append(each)
    found: list[Slice] = []
    for members in pools.values():
        newest = max(each.generation for each in members)
        current = [each for each in members if each.generation == newest]
        if len(current) == current[0].count:
            found += current
    return found


def account_of(
    slices: Iterable[Slice],
    classes: Mapping[str, Document],
    claims: Iterable[Document],
    accepts: Callable[[str, Slice], Sequence[bool]],
) -> DeviceAccount:
    """Devices and claims; ``accepts`` tells for an expression which devices of a slice it means.

    It raises ``SchemaError`` for an expression that cannot be evaluated.
    """
    current = current_slices(slices)
    reader = _ClaimReader(classes, current, accepts)
    infos, problems = [], {}
    for claim in claims:
        metadata = claim["metadata"]
        info, problem = reader.read(claim)
        infos.append(info)
        if problem:
            problems[metadata.get("namespace", ""), metadata["name"]] = problem
    devices = tuple(device.info for each in current for device in each.devices)
    return DeviceAccount(
        devices=Devices(devices=devices, sorts=reader.sorts),
        claims=tuple(infos),
        problems=problems,
        slices=tuple(current),
    )


class _ClaimReader:
    """Reads claims; remembers which devices each sort has."""

    def __init__(
        self,
        classes: Mapping[str, Document],
        slices: Sequence[Slice],
        accepts: Callable[[str, Slice], Sequence[bool]],
    ) -> None:
        self._classes: Final = classes
        self._slices: Final = slices
        self._accepts: Final = accepts
        self.sorts: Final[dict[str, tuple[DeviceId, ...]]] = {}

    def read(self, claim: Document) -> tuple[ClaimInfo, str]:
        """A claim, and why it cannot be met."""
        metadata, status = claim["metadata"], claim.get("status") or {}
        devices = (claim.get("spec") or {}).get("devices") or {}
        problem, requests = "", []
        try:
            requests = [self._request(each) for each in devices.get("requests") or ()]
        except SchemaError as error:
            problem = str(error)
        allocation = status.get("allocation")
        info = ClaimInfo(
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            requests=tuple(requests),
            constraints=tuple(_constraint(each) for each in devices.get("constraints") or ()),
            allocation=read_allocation(allocation) if allocation is not None else None,
            consumers=tuple(each.get("uid", "") for each in status.get("reservedFor") or ()),
        )
        return info, "" if allocation is not None else problem

    def _request(self, request: Document) -> tuple[DeviceRequestInfo, ...]:
        name = request["name"]
        exactly = request.get("exactly")
        if exactly is not None:
            choices = [self._choice(name, exactly)]
        else:
            alternatives = request.get("firstAvailable") or ()
            choices = [self._choice(f"{name}/{each['name']}", each) for each in alternatives]
        left_out = sum(each.left_out for each in self._slices)
        if left_out and not any(self.sorts[each.sort] for each in choices):
            raise SchemaError(
                f"request {name}: no such device is given out (left out: {left_out} that consume shared "
                "counters, may be allocated several times or wait for conditions)"
            )
        return tuple(choices)

    def _choice(self, name: str, wanted: Document) -> DeviceRequestInfo:
        if wanted.get("capacity"):
            raise SchemaError(f"request {name}: capacity: parts of devices are not given out; remove it")
        return DeviceRequestInfo(
            name=name,
            sort=self._sort(name, wanted),
            count=wanted.get("count") or 1,
            is_all=wanted.get("allocationMode") == _ALL,
            is_admin=bool(wanted.get("adminAccess")),
        )

    def _sort(self, name: str, wanted: Document) -> str:
        kind = wanted.get("deviceClassName") or ""
        found = self._classes.get(kind)
        if found is None:
            raise SchemaError(f"request {name}: device class {kind} does not exist")
        selectors = (
            *((found.get("spec") or {}).get("selectors") or ()),
            *(wanted.get("selectors") or ()),
        )
        expressions = [(each.get("cel") or {}).get("expression", "") for each in selectors]
        tolerations = wanted.get("tolerations") or []
        sort = msgspec.json.encode([kind, expressions, tolerations], order="deterministic").decode()
        if sort not in self.sorts:
            self.sorts[sort] = tuple(self._devices(expressions, tolerations))
        return sort

    def _devices(self, expressions: Sequence[str], tolerations: Sequence[Document]) -> Iterable[DeviceId]:
        for each in self._slices:
            verdicts = [self._accepts(expression, each) for expression in expressions]
            for place, device in enumerate(each.devices):
                is_meant = all(verdict[place] for verdict in verdicts)
                if is_meant and all(_is_tolerated(taint, tolerations) for taint in device.taints):
                    yield device.info.id


def _is_tolerated(taint: Document, tolerations: Iterable[Document]) -> bool:
    if taint.get("effect") not in _REPELLING:
        return True
    return any(
        each.get("effect") in (None, "", taint.get("effect"))
        and (
            (each.get("operator") == "Exists" and each.get("key") in (None, "", taint.get("key")))
            or (each.get("key") == taint.get("key") and each.get("value", "") == taint.get("value", ""))
        )
        for each in tolerations
    )


def _constraint(constraint: Document) -> DeviceConstraintInfo:
    distinct = constraint.get("distinctAttribute")
    return DeviceConstraintInfo(
        attribute=distinct or constraint.get("matchAttribute") or "",
        requests=tuple(constraint.get("requests") or ()),
        is_distinct=distinct is not None,
    )


def read_allocation(document: Document) -> Allocation:
    """What a claim has, or a bind request gives it."""
    selector = document.get("nodeSelector")
    results = (document.get("devices") or {}).get("results") or ()
    return Allocation(
        devices=tuple(
            AllocatedDevice(
                each["request"],
                DeviceId(each["driver"], each["pool"], each["device"]),
                bool(each.get("adminAccess")),
            )
            for each in results
        ),
        nodes=from_dict(selector, NodeSelector) if selector else None,
    )


def allocation_document(
    allocation: Allocation, claim: Document, classes: Mapping[str, Document]
) -> dict[str, Any]:
    """The allocation as the status of a claim has it, with the configuration that drivers are to use."""
    results = []
    for each in allocation.devices:
        result = {
            "request": each.request,
            "driver": each.device.driver,
            "pool": each.device.pool,
            "device": each.device.name,
        }
        results.append({**result, "adminAccess": True} if each.is_admin else result)
    devices: dict[str, Any] = {"results": results}
    config = [*_configurations(allocation, claim, classes)]
    if config:
        devices["config"] = config
    document: dict[str, Any] = {"devices": devices}
    selector = _node_selector(allocation)
    if selector is not None:
        document["nodeSelector"] = selector
    return document


def _node_selector(allocation: Allocation) -> Document | None:
    if allocation.node:
        field = {"key": "metadata.name", "operator": "In", "values": [allocation.node]}
        return {"nodeSelectorTerms": [{"matchFields": [field]}]}
    found: Document | None = None
    if allocation.nodes is not None:
        found = to_dict(allocation.nodes)
    return found


def _configurations(
    allocation: Allocation, claim: Document, classes: Mapping[str, Document]
) -> Iterable[dict[str, Any]]:
    """Of the classes that were asked for, then of the claim."""
    devices = (claim.get("spec") or {}).get("devices") or {}
    met = list(dict.fromkeys(each.request for each in allocation.devices))
    for request in met:
        kind = classes.get(_class_of(request, devices)) or {}
        for each in (kind.get("spec") or {}).get("config") or ():
            yield {"source": "FromClass", "requests": [request], **each}
    for each in devices.get("config") or ():
        wanted = each.get("requests") or ()
        if not wanted or any(name in wanted or name.partition("/")[0] in wanted for name in met):
            yield {"source": "FromClaim", **each}


def _class_of(name: str, devices: Document) -> str:
    request, _, choice = name.partition("/")
    nothing: Document = {}
    found = next((each for each in devices.get("requests") or () if each["name"] == request), nothing)
    exactly: Document | None = found.get("exactly")
    if exactly is None:
        choices = found.get("firstAvailable") or ()
        exactly = next((each for each in choices if each["name"] == choice), nothing)
    kind: str = exactly.get("deviceClassName") or ""
    return kind
