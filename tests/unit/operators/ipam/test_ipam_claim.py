"""Claims against pools: what is allowed, what is chosen, and the exact words of refusals; names."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha1

import pytest

from quarterdeck.api import Key, from_dict
from quarterdeck.operators.ipam.logic import claim as words
from quarterdeck.operators.ipam.logic.claim import Outcome, Refused, Why, choose, read_request
from quarterdeck.operators.ipam.logic.facts import pool_facts
from quarterdeck.operators.ipam.logic.naming import collision_name, owned_name, subnet_name
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.logic.pooltable import PoolTable
from quarterdeck.operators.ipam.types import SubnetClaimSpec, SubnetPool

from .ipamstrategy import member
from .test_ipam_pooltable import POOL, book_of, facts


def grant(pool: Mapping[str, object], claim: Mapping[str, object], *members: str) -> str:
    """The block a claim gets, or the text it is refused with."""
    obj = SubnetPool.from_dict({"metadata": {"name": "p", "namespace": "default"}, "spec": pool})
    table = PoolTable()
    table.put_pool(POOL, pool_facts(obj))
    for number, text in enumerate(members):
        table.put_subnet(f"u{number}", member(f"u{number}", parse(text)))
    state = book_of(table)
    assert state.facts is not None
    try:
        request = read_request(_spec(claim), state.facts)
        return str(choose(request, state, claim="uid", cluster_id="c").network)
    except Refused as refusal:
        return refusal.message


def _spec(claim: Mapping[str, object]) -> SubnetClaimSpec:
    return from_dict({"poolRef": "p", "clusterID": "c", **claim}, SubnetClaimSpec)


V4 = {"cidr": "10.0.0.0/16"}
V6 = {"cidr": "2001:db8::/48"}


@pytest.mark.parametrize(
    ("pool", "claim", "wanted"),
    [
        (V4, {"blockSize": 24}, "10.0.0.0/24"),
        ({"cidr": "10.7.9.3/16"}, {"blockSize": 24}, "10.7.0.0/24"),
        (V4, {}, "10.0.0.0/24"),
        ({**V4, "defaultBlockSize": 26}, {}, "10.0.0.0/26"),
        ({"cidr": "2001:db8::/48"}, {}, "2001:db8::/64"),
        ({"cidr": "2001:db8::/80"}, {}, "2001:db8::/128"),
        ({"cidr": "2001::/20", "defaultBlockSize": 24}, {}, "2001::/24"),
        (V6, {"blockSize": 128}, "2001:db8::/128"),
        (V4, {"requestedCIDR": "10.0.1.5/24"}, "10.0.1.0/24"),
        (V4, {"requestedCIDR": "10.0.0.5/32"}, "10.0.0.5/32"),
        (V4, {"requestedCIDR": "10.0.0.0/16"}, "10.0.0.0/16"),
        # the limits themselves are allowed
        ({**V4, "minBlockSize": 20}, {"blockSize": 20}, "10.0.0.0/20"),
        ({**V4, "maxBlockSize": 26}, {"blockSize": 26}, "10.0.0.0/26"),
        ({**V4, "minBlockSize": 24}, {"requestedCIDR": "10.0.1.0/24"}, "10.0.1.0/24"),
        ({**V4, "maxBlockSize": 24}, {"requestedCIDR": "10.0.1.0/24"}, "10.0.1.0/24"),
        # refusals
        ({**V4, "minBlockSize": 20}, {"blockSize": 18}, "blockSize 18 is smaller than pool minimum 20"),
        (V4, {"blockSize": 15}, "blockSize 15 is smaller than pool minimum 16"),
        (V4, {"blockSize": 29}, "blockSize 29 is larger than pool maximum 28"),
        ({**V4, "maxBlockSize": 26}, {"blockSize": 27}, "blockSize 27 is larger than pool maximum 26"),
        (
            V4,
            {"requestedCIDR": "192.168.0.0/24"},
            "requested CIDR 192.168.0.0/24 is outside pool 10.0.0.0/16",
        ),
        (V4, {"requestedCIDR": "2001:db8::/64"}, "requested CIDR 2001:db8::/64 is outside pool 10.0.0.0/16"),
        (
            {"cidr": "10.1.9.0/16"},
            {"requestedCIDR": "10.0.0.0/15"},
            "requested CIDR 10.0.0.0/15 is outside pool 10.1.9.0/16",
        ),
        (
            {"cidr": "10.0.0.0/24"},
            {"requestedCIDR": "10.0.0.0/22"},
            "requested CIDR 10.0.0.0/22 is outside pool 10.0.0.0/24 (last address outside pool)",
        ),
        (
            {**V4, "minBlockSize": 24},
            {"requestedCIDR": "10.0.0.0/20"},
            "requested CIDR prefix length /20 is smaller than pool minimum /24",
        ),
        (
            {**V4, "maxBlockSize": 24},
            {"requestedCIDR": "10.0.0.0/30"},
            "requested CIDR prefix length /30 is larger than pool maximum /24",
        ),
        (
            {"cidr": "10.0.0.0/24"},
            {"blockSize": 16},
            "Pool p is exhausted: failed to find available CIDR of size /16: pool exhausted",
        ),
    ],
)
def test_what_a_claim_gets(pool: dict[str, object], claim: dict[str, object], wanted: str) -> None:
    assert grant(pool, claim) == wanted


def test_overlaps_name_what_is_in_the_way() -> None:
    text = "requested CIDR 10.0.1.7/24 overlaps with existing allocation 10.0.1.128/25"
    assert grant(V4, {"requestedCIDR": "10.0.1.7/24"}, "10.0.1.128/25") == text
    text = "requested CIDR 10.0.1.0/26 overlaps with existing allocation 10.0.0.0/23"
    assert grant(V4, {"requestedCIDR": "10.0.1.0/26"}, "10.0.0.0/23") == text


def test_a_child_pool_in_the_way_is_named_too() -> None:
    table = PoolTable()
    table.put_pool(POOL, facts("10.0.0.0/16"))
    table.put_pool(Key("default", "kid"), facts("10.0.0.0/20", name="kid", parent="p"))
    request = read_request(_spec({"requestedCIDR": "10.0.4.0/24"}), facts("10.0.0.0/16"))
    with pytest.raises(Refused, match=r"overlaps with existing allocation 10\.0\.0\.0/20"):
        choose(request, book_of(table), claim="u", cluster_id="c")


@pytest.mark.parametrize("cidr", ["10.0.00.0/16", "010.0.0.0/16"])
def test_leading_zeros_are_refused_by_the_controller(cidr: str) -> None:
    assert grant({"cidr": cidr}, {"blockSize": 24}).startswith("invalid pool CIDR format: ")
    assert grant(V4, {"requestedCIDR": cidr}).startswith("invalid requested CIDR format: ")


def test_buddy_keeps_big_blocks_whole() -> None:
    pool = {"cidr": "10.0.0.0/22", "strategy": "Buddy"}
    assert grant(pool, {"blockSize": 24}, "10.0.2.0/24") == "10.0.3.0/24"
    assert grant({"cidr": "10.0.0.0/22"}, {"blockSize": 24}, "10.0.2.0/24") == "10.0.0.0/24"


def test_events_of_refusals() -> None:
    assert words.pool_missing("p").event("p") is None
    assert words.pool_leaving("p").event("p") is None
    assert str(words.pool_leaving("p")) == "Pool p is being deleted"
    assert words.exhausted("p", 24).event("p") == (
        "SubnetPoolExhausted",
        "Pool p is exhausted for requested size",
    )
    refusal = Refused(Why.VALIDATION, "blockSize 1 is bad")
    assert refusal.event("p") == ("ValidationFailed", "Validation failed: blockSize 1 is bad")
    assert words.given_up(65).event("p") == (
        "AllocationConflict",
        "Allocation conflict: Failed to allocate CIDR after 65 retries due to conflicts",
    )
    assert words.elsewhere("c", "q").event("p") == (
        "AllocationConflict",
        "Allocation conflict: Existing allocation for ClusterID c found but in different pool: q",
    )


def test_conditions_of_outcomes() -> None:
    assert Outcome("Bound", "10.0.0.0/24").condition == (True, "Allocated", "CIDR 10.0.0.0/24 allocated")
    assert Outcome("Error", message="why").condition == (False, "Error", "why")
    assert Outcome("Pending").condition == (False, "Pending", "Allocation in progress")


def test_subnet_names() -> None:
    assert subnet_name("test-pool", parse("10.0.0.0/24")) == "test-pool-10-0-0-0-24"
    name = subnet_name("p", parse("1:2::/64"))
    assert name == "p-0001-0002-0000-0000-0000-0000-0000-0000-64"
    assert name != subnet_name("p-1", parse("2::/64"))
    long = "b" * 60
    wanted = sha1(f"{long}-10-0-0-0-24".encode()).hexdigest()[:16]
    assert subnet_name(long, parse("10.0.0.0/24")) == f"{'b' * 40}-{wanted}"


def test_names_after_a_collision_differ_and_are_legal() -> None:
    network = parse("10.0.0.0/24")
    name = collision_name("p", network)
    assert name != subnet_name("p", network)
    assert name == f"p-{sha1(b'p/10.0.0.0/24').hexdigest()[:16]}"
    assert len(collision_name("b" * 200, network)) <= 63


def test_names_of_what_belongs_to_a_pool_claim() -> None:
    suffix = sha1(b"uid").hexdigest()[:5]
    assert owned_name("finance", "uid") == f"finance-{suffix}"
    assert owned_name("x" * 80, "uid") == f"{'x' * 57}-{suffix}"
