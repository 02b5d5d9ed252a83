"""Claims and slices as the cluster has them, read for the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Key, from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.scheduler.device import AllocatedDevice, Allocation, DeviceConstraintInfo, DeviceId
from quarterdeck.scheduler.deviceintake import (
    DeviceAccount,
    Slice,
    account_of,
    allocation_document,
    current_slices,
    read_allocation,
    read_slice,
)
from quarterdeck.scheduler.deviceselector import DeviceSelectors

DRIVER = "gpu.example.com"
OWN = f'device.attributes["{DRIVER}"]'
CLASSES: dict[str, Any] = {"gpu": {"spec": {}}}
GPU: dict[str, Any] = {"deviceClassName": "gpu"}
SIZES = (("one", 1), ("two", 2), ("three", 3))
IN_ZONE: dict[str, Any] = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
}


def piece(*devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": "slice", "resourceVersion": "1"}, "spec": spec}


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def claim(expression: str = "", status: dict[str, Any] | None = None, **devices: Any) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": "gpu"}
    if expression:
        exactly["selectors"] = [cel(expression)]
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
    assert meant(f'{OWN}.since.isGreaterThan(semver("1.9.0"))', old, new) == ["new"]
    assert meant(f'{OWN}.speaks.exists(v, v.isGreaterThan(semver("2.0.0")))', old, new) == ["new"]


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


class TestSlice:
    def test_its_pool_and_what_is_not_given_out(self) -> None:
        shared: list[dict[str, Any]] = [
            {"name": "a", "consumesCounters": [{"counterSet": "s"}]},
            {"name": "b", "allowMultipleAllocations": True},
            {"name": "c", "bindingConditions": ["attached"]},
            {"name": "d", "bindsToNode": True},
            {"name": "e", "allowMultipleAllocations": False},
        ]
        document = piece(*shared)
        document["spec"]["pool"].update(generation=3, resourceSliceCount=2)
        found = read_slice(document)
        assert (found.name, found.driver, found.pool, found.node) == ("slice", DRIVER, "pool", "n")
        assert (found.generation, found.count, found.left_out) == (3, 2, 4)
        assert [each.info.id for each in found.devices] == [DeviceId(DRIVER, "pool", "e")]

    def test_what_it_leaves_open(self) -> None:
        found = read_slice({"metadata": {"name": "slice"}, "spec": {"driver": DRIVER, "pool": {"name": "p"}}})
        assert (found.generation, found.count, found.node) == (0, 1, "")
        assert (found.devices, found.left_out) == ((), 0)

    def test_devices_are_where_the_slice_is(self) -> None:
        [device] = read_slice(piece({"name": "a", "nodeName": "ignored"})).devices
        assert (device.info.node, device.info.nodes) == ("n", None)

    def test_each_device_may_have_a_place_of_its_own(self) -> None:
        document = piece({"name": "a", "nodeName": "m"}, {"name": "b", "nodeSelector": IN_ZONE})
        document["spec"]["perDeviceNodeSelection"] = True
        one, several = read_slice(document).devices
        assert (one.info.node, one.info.nodes) == ("m", None)
        assert several.info.node == ""
        assert several.info.nodes == from_dict(IN_ZONE, NodeSelector)

    def test_attributes_have_full_names_and_texts_that_tell_types_apart(self) -> None:
        attributes = {"rack": {"int": 0}, "other.example.com/rack": {"string": "0"}, "odd": {}}
        [device] = read_slice(piece({"name": "a", "attributes": attributes})).devices
        assert device.info.attributes == (
            (f"{DRIVER}/odd", ":None"),
            (f"{DRIVER}/rack", "int:0"),
            ("other.example.com/rack", "string:0"),
        )


def part(name: str, generation: int = 1, count: int = 1, pool: str = "pool") -> Slice:
    return Slice(name=name, driver=DRIVER, pool=pool, generation=generation, count=count)


class TestCurrentSlices:
    def names(self, *slices: Slice) -> list[str]:
        return [each.name for each in current_slices(slices)]

    def test_only_the_newest_generation_counts(self) -> None:
        assert self.names(part("old", 1), part("new", 2), part("older", 0)) == ["new"]

    def test_a_pool_counts_once_it_is_complete(self) -> None:
        assert self.names(part("a", count=2)) == []
        assert self.names(part("a", count=2), part("b", count=2)) == ["a", "b"]
        assert self.names(part("a", 1, count=1), part("b", 2, count=2)) == []

    def test_a_pool_with_more_slices_than_it_has_is_not_understood(self) -> None:
        assert self.names(part("a"), part("b")) == []

    def test_pools_do_not_wait_for_each_other(self) -> None:
        assert self.names(part("a", count=2), part("b", pool="other")) == ["b"]


class TestRequest:
    def request(self, document: dict[str, Any], *devices: dict[str, Any]) -> tuple[Any, ...]:
        account = read(claim(requests=[document]), *devices)
        assert not account.problems
        [found] = account.claims[0].requests
        return found

    def test_one_device_unless_told_otherwise(self) -> None:
        [found] = self.request({"name": "r", "exactly": {"deviceClassName": "gpu"}}, {"name": "a"})
        assert (found.name, found.count, found.is_all, found.is_admin) == ("r", 1, False, False)

    def test_count_mode_and_admin_access(self) -> None:
        exactly = {"deviceClassName": "gpu", "count": 3, "adminAccess": True}
        [found] = self.request({"name": "r", "exactly": exactly})
        assert (found.count, found.is_all, found.is_admin) == (3, False, True)
        exactly = {"deviceClassName": "gpu", "allocationMode": "All"}
        [found] = self.request({"name": "r", "exactly": exactly})
        assert (found.is_all, found.is_admin) == (True, False)

    def test_alternatives_keep_their_order_and_names(self) -> None:
        choices = [{"name": "two", "deviceClassName": "gpu", "count": 2}, {"name": "one", **GPU}]
        found = self.request({"name": "r", "firstAvailable": choices})
        assert [(each.name, each.count) for each in found] == [("r/two", 2), ("r/one", 1)]

    def test_equal_demands_share_a_sort(self) -> None:
        one = {"name": "one", "exactly": GPU}
        other = {"name": "other", "exactly": {**GPU, "count": 2}}
        third = {"name": "third", "exactly": {**GPU, "tolerations": [{"operator": "Exists"}]}}
        account = read(claim(requests=[one, other, third]), {"name": "a"})
        sorts = [choices[0].sort for choices in account.claims[0].requests]
        assert sorts[0] == sorts[1] != sorts[2]
        assert set(account.devices.sorts) == set(sorts)

    def test_selectors_of_the_class_count_as_well(self) -> None:
        classes = {"gpu": {"spec": {"selectors": [cel(f"{OWN}.size > 1")]}}}
        devices = [{"name": name, "attributes": {"size": {"int": size}}} for name, size in SIZES]
        document = claim(f"{OWN}.size < 3")
        account = account_of([read_slice(piece(*devices))], classes, [document], DeviceSelectors().accepts)
        [found] = account.devices.sorts.values()
        assert [each.name for each in found] == ["two"]

    @pytest.mark.parametrize(
        ("exactly", "problem"),
        [
            ({"deviceClassName": "tpu"}, "request r: device class tpu does not exist"),
            ({}, "request r: device class  does not exist"),
            (
                {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}},
                "request r: capacity: parts of devices are not given out; remove it",
            ),
        ],
    )
    def test_what_nobody_can_meet(self, exactly: dict[str, Any], problem: str) -> None:
        account = read(claim(requests=[{"name": "r", "exactly": exactly}]), {"name": "a"})
        assert account.problems == {("ns", "c"): problem}
        assert account.claims[0].requests == ()

    def test_devices_that_are_left_out_are_told_where_no_other_is_meant(self) -> None:
        shared = {"name": "a", "allowMultipleAllocations": True}
        account = read(claim(), shared)
        assert "left out: 1 that consume" in account.problems["ns", "c"]
        assert not read(claim(), shared, {"name": "b"}).problems
        assert not read(claim()).problems

    def test_whoever_has_devices_needs_no_more(self) -> None:
        account = read(claim(status={"allocation": {}}, requests=[{"name": "r", "exactly": {}}]))
        assert account.problems == {}
        assert account.claims[0].allocation == Allocation()


KEYED = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "tolerations", "is_tolerated"),
    [
        (KEYED, [], False),
        ({**KEYED, "effect": "NoExecute"}, [], False),
        ({**KEYED, "effect": "None"}, [], True),
        (KEYED, [{"operator": "Exists"}], True),
        (KEYED, [{"operator": "Exists", "key": ""}], True),
        (KEYED, [{"operator": "Exists", "key": "k"}], True),
        (KEYED, [{"operator": "Exists", "key": "other"}], False),
        (KEYED, [{"operator": "Exists", "effect": "NoExecute"}], False),
        (KEYED, [{"operator": "Exists", "effect": "NoSchedule"}], True),
        (KEYED, [{"operator": "Exists", "effect": ""}], True),
        (KEYED, [{"key": "k", "value": "v"}], True),
        (KEYED, [{"key": "k", "value": "w"}], False),
        (KEYED, [{"key": "k"}], False),
        (KEYED, [{"key": "other", "value": "v"}], False),
        (KEYED, [{"key": "k", "value": "v", "effect": "NoExecute"}], False),
        (KEYED, [{"key": "other", "value": "v"}, {"operator": "Exists"}], True),
        ({"key": "k", "effect": "NoSchedule"}, [{"key": "k"}], True),
    ],
)
def test_tainted_devices_are_for_those_who_tolerate_it(
    taint: dict[str, Any], tolerations: list[dict[str, Any]], is_tolerated: bool
) -> None:
    request = {"name": "r", "exactly": {**GPU, "tolerations": tolerations}}
    account = read(claim(requests=[request]), {"name": "a", "taints": [taint]}, {"name": "b"})
    [found] = account.devices.sorts.values()
    assert [each.name for each in found] == (["a", "b"] if is_tolerated else ["b"])


def test_every_taint_must_be_tolerated() -> None:
    taints = [KEYED, {"key": "other", "effect": "NoExecute"}]
    request = {"name": "r", "exactly": {**GPU, "tolerations": [{"key": "k", "operator": "Exists"}]}}
    account = read(claim(requests=[request]), {"name": "a", "taints": taints})
    assert [*account.devices.sorts.values()] == [()]


def test_constraints_match_or_tell_apart() -> None:
    constraints = [
        {"matchAttribute": f"{DRIVER}/rack", "requests": ["r"]},
        {"distinctAttribute": f"{DRIVER}/card"},
    ]
    assert read(claim(constraints=constraints), {"name": "a"}).claims[0].constraints == (
        DeviceConstraintInfo(attribute=f"{DRIVER}/rack", requests=("r",)),
        DeviceConstraintInfo(attribute=f"{DRIVER}/card", is_distinct=True),
    )


def test_an_account_has_the_devices_and_claims_of_all_slices() -> None:
    left_alone = {"metadata": {"name": "bare"}}
    account = read(left_alone, {"name": "a"}, {"name": "b"})
    assert [each.id.name for each in account.devices.devices] == ["a", "b"]
    assert [each.name for each in account.slices] == ["slice"]
    [found] = account.claims
    assert (found.key, found.requests) == (Key("", "bare"), ())


def test_a_claim_without_a_namespace_has_its_problem_too() -> None:
    document = claim(requests=[{"name": "r", "exactly": {}}])
    del document["metadata"]["namespace"]
    assert [*read(document).problems] == [("", "c")]


def given(*requests: str, is_admin: bool = False, **place: Any) -> Allocation:
    devices = (AllocatedDevice(name, DeviceId(DRIVER, "pool", "a"), is_admin) for name in requests)
    return Allocation(devices=tuple(devices), **place)


class TestAllocation:
    @pytest.mark.parametrize("is_admin", [False, True])
    @pytest.mark.parametrize("nodes", [None, from_dict(IN_ZONE, NodeSelector)])
    def test_what_is_written_is_read_again(self, is_admin: bool, nodes: NodeSelector | None) -> None:
        allocation = given("r", "s", is_admin=is_admin, nodes=nodes)
        document = allocation_document(allocation, {}, {})
        assert read_allocation(document) == allocation
        assert ("nodeSelector" in document) == (nodes is not None)
        assert ("adminAccess" in document["devices"]["results"][0]) == is_admin

    def test_a_single_node_is_named(self) -> None:
        document = allocation_document(given("r", node="n"), {}, {})
        field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
        assert document["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [field]}]}
        assert read_allocation(document).nodes == from_dict(document["nodeSelector"], NodeSelector)

    def test_an_empty_one(self) -> None:
        assert read_allocation({}) == Allocation()
        assert allocation_document(Allocation(), {}, {}) == {"devices": {"results": []}}

    def config(self, requests: list[dict[str, Any]], *met: str, **devices: Any) -> list[tuple[str, Any, str]]:
        """The source, the requests and the name of every configuration."""
        wanted = {"spec": {"devices": {"requests": requests, **devices}}}
        classes = {
            name: {"spec": {"config": [{"opaque": {"driver": f"class {name}"}}]}} for name in ("gpu", "tpu")
        }
        document = allocation_document(given(*met), wanted, {**classes, "plain": {"spec": {}}})
        found = document["devices"].get("config", [])
        return [(each["source"], each.get("requests"), each["opaque"]["driver"]) for each in found]

    def test_the_configuration_of_each_class_comes_once_per_request(self) -> None:
        requests = [
            {"name": "r", "exactly": {"deviceClassName": "gpu"}},
            {"name": "s", "exactly": {"deviceClassName": "plain"}},
            {"name": "t", "exactly": {"deviceClassName": "tpu"}},
        ]
        assert self.config(requests, "r", "r", "s", "t") == [
            ("FromClass", ["r"], "class gpu"),
            ("FromClass", ["t"], "class tpu"),
        ]
        assert self.config(requests, "unknown") == []

    def test_the_class_is_that_of_the_alternative_that_was_taken(self) -> None:
        choices = [{"name": "best", "deviceClassName": "gpu"}, {"name": "next", "deviceClassName": "tpu"}]
        requests = [{"name": "r", "firstAvailable": choices}]
        assert self.config(requests, "r/next") == [("FromClass", ["r/next"], "class tpu")]
        assert self.config(requests, "r/gone") == []

    @pytest.mark.parametrize(
        ("wanted", "is_used"),
        [
            ([], True),
            (["r"], True),
            (["r/next"], True),
            (["s", "r"], True),
            (["r/best"], False),
            (["s"], False),
        ],
    )
    def test_the_configuration_of_the_claim_is_for_the_requests_it_names(
        self, wanted: list[str], is_used: bool
    ) -> None:
        config = [{"requests": wanted, "opaque": {"driver": "claim"}}]
        found = self.config([{"name": "r", "firstAvailable": []}], "r/next", config=config)
        assert found == ([("FromClaim", wanted, "claim")] if is_used else [])


class TestSelectors:
    def test_names_with_a_domain_are_that_domains(self) -> None:
        theirs = {
            "name": "a",
            "attributes": {"other.example.com/rack": {"string": "x"}, "rack": {"string": "y"}},
        }
        assert meant('device.attributes["other.example.com"].rack == "x"', theirs) == ["a"]
        assert meant(f'{OWN}.rack == "y"', theirs) == ["a"]

    def test_the_driver_capacity_and_lists(self) -> None:
        large = {"name": "large", "capacity": {"memory": {"value": "80Gi"}}}
        small = {"name": "small", "capacity": {"memory": {"value": "16Gi"}}}
        room = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
        assert meant(room, large, small) == ["large"]
        assert meant(f'device.driver == "{DRIVER}"', large) == ["large"]
        assert meant("device.allowMultipleAllocations", large) == []
        assert meant(f'"rack" in {OWN}', large) == []
        listed = {"name": "a", "attributes": {"tags": {"strings": ["x"]}, "on": {"bool": False}}}
        assert meant(f'{OWN}.tags == ["x"] && !{OWN}.on', listed) == ["a"]

    @pytest.mark.parametrize(
        ("expression", "problem"),
        [
            ("device.(", "selector 'device.(': "),
            ("1 + 1", "selector '1 + 1': must be a condition, true or false"),
            (f"{OWN}.none == 1", "on device a: "),
        ],
    )
    def test_what_cannot_be_evaluated_is_told(self, expression: str, problem: str) -> None:
        account = read(claim(expression), {"name": "a"})
        assert problem in account.problems["ns", "c"]

    def test_what_is_no_truth_means_no_device(self) -> None:
        assert meant(f"{OWN}.size", {"name": "a", "attributes": {"size": {"int": 1}}}) == []

    def test_verdicts_are_kept_as_long_as_the_slice_is_the_same(self) -> None:
        selectors = DeviceSelectors()
        expression = f"{OWN}.size > 1"
        first, same = (read_slice(piece({"name": "a", "attributes": {"size": {"int": 1}}})) for _ in range(2))
        larger = read_slice(piece({"name": "a", "attributes": {"size": {"int": 2}}}))
        known = selectors.accepts(expression, first)
        assert known == (False,)
        assert selectors.accepts(expression, first) is known
        assert selectors.accepts("true", first) == (True,)
        assert selectors.accepts(expression, first) is known
        assert selectors.accepts(expression, larger) == (True,)
        again = selectors.accepts(expression, same)
        selectors.forget_others({"slice"})
        assert selectors.accepts(expression, same) is again
        selectors.forget_others({"other"})
        assert selectors.accepts(expression, same) == again
