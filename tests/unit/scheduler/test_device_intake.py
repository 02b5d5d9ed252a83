"""Claims and slices as the cluster has them, read for the scheduler."""

from __future__ import annotations

from typing import Any

from quarterdeck.scheduler.deviceintake import DeviceAccount, account_of, read_slice
from quarterdeck.scheduler.deviceselector import DeviceSelectors

CLASSES: dict[str, Any] = {"gpu": {"spec": {}}}


def piece(*devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": "slice", "resourceVersion": "1"}, "spec": spec}


def claim(expression: str = "", status: dict[str, Any] | None = None, **devices: Any) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": "gpu"}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    wanted = {"requests": [{"name": "r", "exactly": exactly}], **devices}
    made = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"devices": wanted}}
    return {**made, **({"status": status} if status is not None else {})}


def read(one: dict[str, Any], *devices: dict[str, Any]) -> DeviceAccount:
    return account_of([read_slice(piece(*devices))], CLASSES, [one], DeviceSelectors().accepts)


def meant(expression: str, *devices: dict[str, Any]) -> list[str]:
    """The names of the devices that a selector means."""
    account = read(claim(expression), *devices)
    assert not account.problems
    [found] = account.devices.sorts.values()
    return [each.name for each in found]


def test_selectors_read_attributes_of_every_type() -> None:
    old = {"name": "old", "attributes": {"since": {"version": "1.2.0"}, "speaks": {"versions": ["1.0.0"]}}}
    new = {
        "name": "new",
        "attributes": {"since": {"version": "2.0.0"}, "speaks": {"versions": ["2.1.0", "1.0.0"]}},
    }
    known = 'device.attributes["gpu.example.com"]'
    assert meant(f'{known}.since.isGreaterThan(semver("1.9.0"))', old, new) == ["new"]
    assert meant(f'{known}.speaks.exists(v, v.isGreaterThan(semver("2.0.0")))', old, new) == ["new"]


def test_a_claim_keeps_its_constraints_and_who_uses_it() -> None:
    device = {"name": "a"}
    plain = read(claim(), device).claims[0]
    assert (plain.constraints, plain.consumers, plain.allocation) == ((), (), None)
    users = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}
    bound = read(
        claim(status=users, constraints=[{"matchAttribute": "gpu.example.com/rack"}]), device
    ).claims[0]
    assert bound.consumers == ("1",)
    assert len(bound.constraints) == 1
