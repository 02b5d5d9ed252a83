"""Which pool a node gets its range from."""

from __future__ import annotations

import pytest

from quarterdeck.api import ObjectMeta, Time, from_dict
from quarterdeck.errors import ConfigError
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.logic.podrange import (
    Family,
    NoPool,
    RangePool,
    choose_pool,
    pool_around,
    range_of_family,
    range_pools,
)
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import SubnetPool, SubnetPoolSpec
from quarterdeck.runtime.operator import OperatorEnvironment


def pool(name: str, cidr: str, zone: str | None = "", **spec: int) -> SubnetPool:
    labels = {names.POD_RANGES_LABEL: zone} if zone is not None else {}
    return SubnetPool(
        metadata=ObjectMeta(name=name, namespace="net", labels=labels),
        spec=from_dict({"cidr": cidr, **spec}, SubnetPoolSpec),
    )


POOLS = range_pools(
    [
        pool("west-b", "10.2.0.0/16", "west-b"),
        pool("west-a", "10.1.0.0/16", "west-a", defaultBlockSize=25),
        pool("rest", "10.9.0.0/16"),
        pool("six", "2001:db8::/48"),
        pool("others", "10.3.0.0/16", None),
        pool("broken", "10.3.0/16", "west-c"),
    ]
)


def test_pools_are_those_with_the_label_and_a_range() -> None:
    assert [each.name for each in POOLS] == ["rest", "six", "west-a", "west-b"]


def test_a_pool_on_its_way_out_gives_no_ranges() -> None:
    leaving = pool("leaving", "10.4.0.0/16")
    metadata = leaving.metadata.evolve(deletion_timestamp=Time.of_timestamp(0))
    assert range_pools([leaving.evolve(metadata=metadata), pool("kept", "10.5.0.0/16")]) == range_pools(
        [pool("kept", "10.5.0.0/16")]
    )


@pytest.mark.parametrize(
    ("zone", "family", "name"),
    [
        ("west-a", Family.IPv4, "west-a"),
        ("west-b", Family.IPv4, "west-b"),
        ("west-c", Family.IPv4, "rest"),
        ("", Family.IPv4, "rest"),
        ("west-a", Family.IPv6, "six"),
    ],
)
def test_a_node_gets_its_range_from_the_pool_of_its_zone(zone: str, family: Family, name: str) -> None:
    assert choose_pool(POOLS, zone, family).name == name


def test_the_size_is_the_default_of_the_pool() -> None:
    assert [each.size for each in POOLS] == [24, 64, 25, 24]


def test_a_missing_pool_is_told_with_its_label() -> None:
    of_zones = [each for each in POOLS if each.zone]
    text = "no IPv4 SubnetPool is labelled quarterdeck.dev/pod-ranges-of-zone=west-c for zone west-c"
    with pytest.raises(NoPool, match=f"^{text}$"):
        choose_pool(of_zones, "west-c", Family.IPv4)
    with pytest.raises(NoPool, match=r"for nodes without a zone$"):
        choose_pool(of_zones, "", Family.IPv4)


def test_pools_that_overlap_are_not_used() -> None:
    twice = [*POOLS, RangePool("zwei", "west-c", parse("10.1.128.0/17"), 24)]
    with pytest.raises(NoPool, match=r"west-a \(10.1.0.0/16\) and zwei \(10.1.128.0/17\) overlap"):
        choose_pool(twice, "west-a", Family.IPv4)
    assert choose_pool(twice, "west-b", Family.IPv4).name == "west-b"


def test_a_range_that_a_node_has_belongs_to_the_pool_around_it() -> None:
    found = pool_around(POOLS, parse("10.2.7.0/24"))
    assert found is not None
    assert found.name == "west-b"
    assert pool_around(POOLS, parse("172.16.0.0/24")) is None


def test_the_range_of_a_family() -> None:
    both = ("10.2.7.0/24", "2001:db8::/64")
    assert range_of_family(both, Family.IPv6) == parse("2001:db8::/64")
    assert range_of_family(both[:1], Family.IPv6) is None
    assert range_of_family(("nonsense",), Family.IPv4) is None


def test_settings_name_each_family_once() -> None:
    environment = OperatorEnvironment(
        name="ipam", settings={"podRanges": {"namespace": "net", "families": ["IPv4", "IPv4"]}}
    )
    with pytest.raises(ConfigError, match=r"podRanges.families: name IPv4, IPv6 or both, each once"):
        environment.decode(IpamSettings)
