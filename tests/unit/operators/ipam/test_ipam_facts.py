"""What counts of Subnets and pools, and what is made of those that cannot be read."""

from __future__ import annotations

import pytest

from quarterdeck.api import Key, ObjectMeta, Time
from quarterdeck.operators.ipam.logic.facts import (
    Child,
    Member,
    PoolFacts,
    child_of,
    member_of,
    pool_facts,
    version_number,
)
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.types import Subnet, SubnetPool, SubnetPoolSpec, SubnetSpec

CREATED = "2030-01-01T00:00:00Z"


def metadata(**fields: object) -> ObjectMeta:
    known = {"name": "a", "namespace": "ns", "uid": "u", "resource_version": "7", "generation": 3}
    return ObjectMeta(**{**known, "creation_timestamp": Time(CREATED), **fields})  # type: ignore[arg-type]


def subnet(cidr: str = "10.0.0.0/28", pool: str = "p", **fields: object) -> Subnet:
    return Subnet(metadata=metadata(**fields), spec=SubnetSpec(pool_ref=pool, cidr=cidr, cluster_id="c"))


def pool(cidr: str = "10.0.0.0/16", **spec: object) -> PoolFacts:
    return pool_facts(SubnetPool(metadata=metadata(), spec=SubnetPoolSpec(cidr=cidr, **spec)))  # type: ignore[arg-type]


def test_a_subnet_counts_with_all_that_identifies_it() -> None:
    made = member_of(subnet())
    assert made == Member("u", "ns", "a", "p", parse("10.0.0.0/28").packed, "c", CREATED, 7)
    assert (made.key, made.pool_key) == (Key("ns", "a"), Key("ns", "p"))


def test_a_subnet_without_a_pool_does_not_count() -> None:
    assert member_of(subnet(pool="")) is None


def test_a_subnet_whose_cidr_cannot_be_read_counts_without_a_network() -> None:
    made = member_of(subnet(cidr="nonsense"))
    assert made is not None
    assert made.network is None


def test_an_object_that_was_never_stored_has_its_name_as_identity_and_no_date() -> None:
    made = member_of(subnet(uid="", creation_timestamp=None, resource_version=""))
    assert made is not None
    assert (made.uid, made.created, made.version) == ("ns/a", "", 0)


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("12a", 0), ("-1", 0), ("²", 0)])
def test_a_version_that_is_no_number_counts_as_zero(text: str, number: int) -> None:
    assert version_number(text) == number


def test_a_pool_has_the_usual_sizes_unless_it_says_others() -> None:
    plain = pool()
    assert (plain.default_size, plain.min_size, plain.max_size, plain.strategy) == (24, 0, 0, "Linear")
    other = pool(default_block_size=26, min_block_size=20, max_block_size=27, strategy="Buddy")
    assert (other.default_size, other.min_size, other.max_size, other.strategy) == (26, 20, 27, "Buddy")


def test_a_pool_counts_with_all_that_identifies_it() -> None:
    made = pool()
    assert (made.uid, made.name, made.version, made.generation, made.created) == ("u", "a", 7, 3, CREATED)
    assert (made.cidr, made.network, made.problem) == ("10.0.0.0/16", parse("10.0.0.0/16"), "")
    assert child_of(made) == Child("u", "a", parse("10.0.0.0/16"), CREATED)


def test_a_pool_whose_range_cannot_be_read_says_why() -> None:
    made = pool("nonsense")
    assert made.network is None
    assert made.problem.startswith("invalid pool CIDR format: ")


def test_limits_of_a_pool_are_its_own_or_those_of_the_family() -> None:
    assert (pool().smallest, pool().largest) == (16, 28)
    assert (pool("2001:db8::/48").smallest, pool("2001:db8::/48").largest) == (16, 128)
    own = pool(min_block_size=20, max_block_size=27)
    assert (own.smallest, own.largest) == (20, 27)


@pytest.mark.parametrize(
    ("cidr", "size", "usual"),
    [
        ("10.0.0.0/16", 24, 24),
        ("10.0.0.0/26", 24, 24),
        ("2001:db8::/24", 24, 24),
        ("2001:db8::/25", 24, 64),
        ("2001:db8::/64", 24, 64),
        ("2001:db8::/65", 24, 128),
        ("2001:db8::/48", 56, 56),
    ],
)
def test_the_usual_size_of_a_small_ipv6_pool_is_a_link_or_an_address(
    cidr: str, size: int, usual: int
) -> None:
    assert pool(cidr, default_block_size=size).usual_size == usual


def test_a_pool_is_not_inside_itself() -> None:
    own = SubnetPool(metadata=ObjectMeta(name="p", labels={"plexaubnet.io/parent": "p"}))
    assert pool_facts(own).parent == ""
