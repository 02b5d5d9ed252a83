"""Which devices claims get on a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.scheduler.device import (
    Allocation,
    ClaimInfo,
    DeviceConstraintInfo,
    DeviceId,
    DeviceInfo,
    DeviceRequestInfo,
)
from quarterdeck.scheduler.model.deviceallocation import allocate

RACKS = {"a": "x", "b": "y", "c": "x", "d": "z"}


def device(name: str, **more: Any) -> DeviceInfo:
    fields = {"node": "n", "attributes": (("rack", RACKS.get(name, "w")),), **more}
    return DeviceInfo(id=DeviceId("driver", "pool", name), **fields)


def request(name: str = "r", sort: str = "abcd", count: int = 1, **more: Any) -> DeviceRequestInfo:
    """For devices of a sort that is called after them."""
    return DeviceRequestInfo(name=name, sort=sort, count=count, **more)


def claim(*requests: DeviceRequestInfo | tuple[DeviceRequestInfo, ...], **more: Any) -> ClaimInfo:
    choices = tuple(each if isinstance(each, tuple) else (each,) for each in requests)
    return ClaimInfo(namespace="ns", name="c", requests=choices, **more)


def given(
    *claims: ClaimInfo, taken: Collection[str] = (), known: Mapping[str, DeviceInfo] | None = None
) -> list[Allocation] | None:
    devices = known or {name: device(name) for name in "abcd"}
    return allocate(
        claims,
        "n",
        lambda sort: [devices[name] for name in sort],
        lambda each: each.name not in taken,
    )


def names(*claims: ClaimInfo, taken: Collection[str] = ()) -> list[list[tuple[str, str]]] | None:
    """The requests and devices of each claim."""
    found = given(*claims, taken=taken)
    if found is None:
        return None
    return [[(each.request, each.device.name) for each in one.devices] for one in found]


def test_devices_are_taken_in_order_and_once() -> None:
    assert names(claim(request(count=2), request("s")), claim(request())) == [
        [("r", "a"), ("r", "b"), ("s", "c")],
        [("r", "d")],
    ]
    assert names(claim(request(count=2)), taken="ac") == [[("r", "b"), ("r", "d")]]


@pytest.mark.parametrize(("count", "is_met"), [(3, True), (4, False)])
def test_all_that_are_wanted_or_none(count: int, is_met: bool) -> None:
    assert (names(claim(request(count=count)), taken="a") is not None) is is_met


def test_choices_are_taken_back_for_later_requests_and_claims() -> None:
    assert names(claim(request(), request("s", "a"))) == [[("r", "b"), ("s", "a")]]
    assert names(claim(request(count=2)), claim(request("s", "b"))) == [
        [("r", "a"), ("r", "c")],
        [("s", "b")],
    ]
    assert names(claim(request("r", "a")), claim(request("s", "a"))) is None


def test_the_first_alternative_that_can_be_met() -> None:
    best, other = request("r/best", "ab", 2), request("r/next", "cd", 1)
    assert names(claim((best, other))) == [[("r/best", "a"), ("r/best", "b")]]
    assert names(claim((best, other)), taken="a") == [[("r/next", "c")]]
    assert names(claim((best, other)), taken="acd") is None


def test_all_devices_means_each_of_them() -> None:
    everything = request(sort="ab", is_all=True, count=9)
    assert names(claim(everything), taken="c") == [[("r", "a"), ("r", "b")]]
    assert names(claim(everything), taken="b") is None
    assert names(claim(request(sort="", is_all=True))) is None


def test_who_only_looks_takes_nothing() -> None:
    watching = request("w", "a", is_admin=True)
    assert names(claim(watching, request("r", "a")), claim(watching)) == [
        [("w", "a"), ("r", "a")],
        [("w", "a")],
    ]
    assert names(claim(watching), taken="a") == [[("w", "a")]]
    found = given(claim(watching, request("r", "a")))
    assert found is not None
    assert [each.is_admin for each in found[0].devices] == [True, False]
    # to look at a device and to take that back leaves it taken by whoever has it
    assert names(claim(request("r", "a"), (request("w", "a", 2, is_admin=True), request("v", "ab")))) == [
        [("r", "a"), ("v", "b")]
    ]


@pytest.mark.parametrize(
    ("constraint", "chosen"),
    [
        ({}, ["a", "c"]),
        ({"requests": ("r",)}, ["a", "c"]),
        ({"requests": ("other",)}, ["a", "b"]),
        ({"is_distinct": True}, ["a", "b"]),
        ({"attribute": "none"}, None),
        ({"attribute": "none", "is_distinct": True}, None),
        ({"attribute": "none", "requests": ("other",)}, ["a", "b"]),
    ],
)
def test_what_devices_have_in_common(constraint: dict[str, Any], chosen: list[str] | None) -> None:
    made = DeviceConstraintInfo(**{"attribute": "rack", **constraint})
    found = names(claim(request(count=2), constraints=(made,)))
    assert found == ([[("r", name) for name in chosen]] if chosen is not None else None)


def test_a_constraint_holds_between_the_requests_it_names() -> None:
    requests = (request("r"), request("s", "bcd"), request("t", "bd"))
    both = DeviceConstraintInfo(attribute="rack", requests=("r", "s"))
    assert names(claim(*requests, constraints=(both,))) == [[("r", "a"), ("s", "c"), ("t", "b")]]
    assert names(claim(*requests)) == [[("r", "a"), ("s", "b"), ("t", "d")]]


def test_a_constraint_on_a_request_is_one_on_its_alternatives() -> None:
    choices = (request("r/x", "ab", 2), request("r/y", "ac", 2))
    for names_of in (("r",), ("r/x", "r/y")):
        made = DeviceConstraintInfo(attribute="rack", requests=names_of)
        assert names(claim(choices, constraints=(made,))) == [[("r/y", "a"), ("r/y", "c")]]


def test_a_constraint_ends_at_its_claim() -> None:
    same = DeviceConstraintInfo(attribute="rack")
    assert names(
        claim(request(sort="a"), constraints=(same,)), claim(request(sort="bd"), constraints=(same,))
    ) == [
        [("r", "a")],
        [("r", "b")],
    ]


def test_a_search_that_goes_on_too_long_ends() -> None:
    many = {chr(code): device(chr(code), attributes=(("rack", "x"),)) for code in range(ord("A"), ord("Z"))}
    many["Z"] = device("Z", attributes=(("rack", "y"),))
    distinct = DeviceConstraintInfo(attribute="rack", requests=("s",), is_distinct=True)
    sort = "".join(many)
    assert (
        given(claim(request("r", sort, 9), request("s", sort, 3), constraints=(distinct,)), known=many)
        is None
    )


def zone(name: str) -> NodeSelector:
    expression = {"key": "zone", "operator": "In", "values": [name]}
    return from_dict({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)


@pytest.mark.parametrize(
    ("places", "node", "nodes"),
    [
        ([{"node": "n"}], "n", None),
        ([{"node": ""}], "", None),
        ([{"node": "", "nodes": zone("a")}], "", zone("a")),
        ([{"node": "", "nodes": zone("a")}] * 2, "", zone("a")),
        ([{"node": "", "nodes": zone("a")}, {"node": ""}], "", zone("a")),
        ([{"node": "", "nodes": zone("a")}, {"node": "", "nodes": zone("b")}], "n", None),
        ([{"node": "", "nodes": zone("a")}, {"node": "n"}], "n", None),
    ],
)
def test_where_the_devices_can_be_used(
    places: list[dict[str, Any]], node: str, nodes: NodeSelector | None
) -> None:
    known = {name: device(name, **place) for name, place in zip("abcd", places, strict=False)}
    found = given(claim(request(sort="".join(known), count=len(known))), known=known)
    assert found is not None
    assert (found[0].node, found[0].nodes) == (node, nodes)
