"""The status of pools: counts, keys, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.api import Condition, Time
from quarterdeck.operators.ipam.controllers.poolstatus import status_patch
from quarterdeck.operators.ipam.logic import statuscalc
from quarterdeck.operators.ipam.logic.facts import pool_facts
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.occupancy import Occupancy, Rank
from quarterdeck.operators.ipam.logic.pooltable import PoolTable
from quarterdeck.operators.ipam.logic.statuscalc import (
    Limits,
    PoolStatus,
    calculate,
    free_by_size,
    normalize_size_key,
    pool_status,
)
from quarterdeck.operators.ipam.types import SubnetPool

from .ipamstrategy import POOLS, aligned, blocks_around, member, uncovered
from .test_ipam_pooltable import POOL, book_of, facts

NOW = Time("2030-01-01T00:00:00Z")


def free(cidr: str, *members: str) -> dict[str, int]:
    return calculate(cidr, [(text, "c") for text in members])[1]


def test_free_counts_of_the_design() -> None:
    assert free("10.0.0.0/16")["16"] == 1
    assert free("10.0.0.0/16")["28"] == 4096
    one = free("10.0.0.0/16", "10.0.0.0/24")
    assert [one[str(size)] for size in range(16, 29)] == [
        *(0, 1, 3, 7, 15, 31, 63, 127, 255, 510, 1020, 2040, 4080)
    ]
    ends = free("10.0.0.0/20", "10.0.0.0/24", "10.0.15.0/24")
    assert [ends[str(size)] for size in range(20, 25)] == [0, 0, 2, 6, 14]
    nested = calculate("10.0.0.0/16", [("10.0.0.0/24", "a"), ("10.0.0.0/25", "b")])
    assert (nested[0], nested[1]["24"], nested[1]["25"]) == (2, 255, 510)


def test_children_count_where_they_are_given() -> None:
    assert calculate("10.0.0.0/24", [("10.0.0.0/26", "a")], ["10.0.0.64/26"]) == (
        2,
        free("10.0.0.0/24", "10.0.0.0/26", "10.0.0.64/26"),
        {"10.0.0.0/26": "a", "10.0.0.64/26": "child-pool"},
    )


def test_ipv4_keys_are_fixed_and_have_the_old_alias() -> None:
    for cidr in ("10.0.0.0/8", "10.0.0.0/30"):
        assert set(free(cidr)) == {*map(str, range(16, 29)), "/24"}
    assert set(free("10.0.0.0/30").values()) == {0}


def test_ipv6_keys_and_saturation() -> None:
    found = free("2001:db8::/47")
    assert list(found) == ["47", *map(str, range(48, 129, 4))]
    assert (found["47"], found["48"], found["128"]) == (1, 2, 9223372036854775807)
    extra = free_by_size(
        Occupancy(parse("2001:db8::/48")).space.counts(), parse("2001:db8::/48"), [56, 63, 24]
    )
    assert "63" in extra
    assert "24" not in extra


@given(
    st.sampled_from(POOLS).flatmap(
        lambda pool: st.tuples(st.just(pool), st.lists(blocks_around(pool), max_size=12))
    )
)
@settings(max_examples=150)
def test_counts_by_formula_equal_counts_one_by_one(given_: tuple[Network, list[Network]]) -> None:
    pool, blocks = given_
    view = Occupancy(pool)
    for number, block in enumerate(blocks):
        view.add(str(number), block, Rank("", str(number)))
    left = uncovered(pool, blocks)
    counts, total = view.space.counts(), 0
    for prefix in range(pool.prefix, pool.width + 1):
        total = 2 * total + counts[prefix - pool.prefix]
        assert total == len(aligned(pool, left, prefix))


@pytest.mark.parametrize(("key", "wanted"), [("24", "24"), ("/24", "24"), ("0", "0")])
def test_size_keys_lose_one_slash(key: str, wanted: str) -> None:
    assert normalize_size_key(key) == wanted


@pytest.mark.parametrize("key", ["abc", "//24", "", "/", "2 4", "²4"])
def test_size_keys_that_are_no_numbers_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="invalid block size key format"):
        normalize_size_key(key)


def status_of(
    table: PoolTable,
    present: Sequence[Condition] = (),
    *,
    has_parent: bool = True,
    limits: Limits | None = None,
) -> PoolStatus:
    return pool_status(book_of(table), present, now=NOW, has_parent=has_parent, limits=limits or Limits())


def conditions(status: PoolStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def with_members(*cidrs: str, cidr: str = "10.0.0.0/26") -> PoolTable:
    table = PoolTable()
    table.put_pool(POOL, facts(cidr))
    for number, text in enumerate(cidrs):
        table.put_subnet(f"u{number}", member(f"u{number}", parse(text)))
    return table


def test_a_healthy_pool() -> None:
    assert conditions(status_of(with_members("10.0.0.0/28"))) == {
        "Ready": ("True", "CIDRAssigned"),
        "Exhausted": ("False", "FreeBlocksAvailable"),
        "Consistent": ("True", "OK"),
    }


def test_a_full_pool_is_exhausted_to_the_last_address() -> None:
    almost = with_members("10.0.0.0/27", "10.0.0.32/28", "10.0.0.48/29", "10.0.0.56/30", "10.0.0.60/31")
    assert conditions(status_of(almost))["Exhausted"][0] == "False"
    assert conditions(status_of(with_members("10.0.0.0/26")))["Exhausted"] == ("True", "NoFreeBlocks")


def test_what_is_inconsistent() -> None:
    assert conditions(status_of(with_members("10.9.0.0/28")))["Consistent"] == ("False", "SubnetsOutsidePool")
    overlapping = with_members("10.9.0.0/28", "10.0.0.0/28", "10.0.0.0/27")
    assert conditions(status_of(overlapping))["Consistent"] == ("False", "OverlappingSubnets")


def test_a_child_without_parent_waits() -> None:
    assert conditions(status_of(with_members(), has_parent=False))["Ready"] == ("False", "WaitingParent")


def test_an_unreadable_range_is_said_and_nothing_is_guessed() -> None:
    pool = SubnetPool.from_dict(
        {"metadata": {"name": "p", "namespace": "default"}, "spec": {"cidr": "10.0.00.0/16"}}
    )
    table = PoolTable()
    table.put_pool(POOL, pool_facts(pool))
    table.put_subnet("a", member("a", parse("10.0.0.0/24")))
    status = status_of(table)
    assert conditions(status) == {"Ready": ("False", "Error")}
    assert status.conditions[0].message.startswith("invalid pool CIDR format: ")
    assert (status.free, status.allocated) == (None, 1)


def test_the_list_of_members_goes_above_the_limit_and_comes_back_below_it() -> None:
    limits = Limits(omit_above=3, return_at=1)
    table = with_members("10.0.0.0/30", "10.0.0.4/30", "10.0.0.8/30")
    status = status_of(table, limits=limits)
    assert len(status.cidrs or {}) == 3
    table.put_subnet("x", member("x", parse("10.0.0.12/30")))
    status = status_of(table, status.conditions, limits=limits)
    assert status.cidrs is None
    assert conditions(status)["AllocatedCIDRsOmitted"] == ("True", "TooManyAllocations")
    for uid in ("x", "u0"):
        table.drop_subnet(uid)
    status = status_of(table, status.conditions, limits=limits)
    assert status.cidrs is None
    table.drop_subnet("u1")
    status = status_of(table, status.conditions, limits=limits)
    assert status.cidrs == {"10.0.0.8/30": "c-u2"}
    assert "AllocatedCIDRsOmitted" not in conditions(status)


def test_of_equal_cidrs_the_older_member_is_listed() -> None:
    table = with_members()
    table.put_subnet("b", member("b", parse("10.0.0.0/28"), created="2030-02-01T00:00:00Z"))
    table.put_subnet("a", member("a", parse("10.0.0.0/28"), created="2030-01-01T00:00:00Z"))
    assert status_of(table).cidrs == {"10.0.0.0/28": "c-a"}


def test_a_patch_has_our_fields_only_and_removes_keys_with_null() -> None:
    foreign = {
        "type": "Foreign",
        "status": "True",
        "reason": "Theirs",
        "message": "",
        "lastTransitionTime": str(NOW),
    }
    pool = SubnetPool.from_dict(
        {
            "metadata": {"name": "p", "namespace": "default", "resourceVersion": "7"},
            "spec": {"cidr": "10.0.0.0/26"},
            "status": {
                "allocatedCIDRs": {"10.0.0.0/28": "gone"},
                "freeCountBySize": {"99": 1},
                "conditions": [foreign],
                "somebodyElses": 1,
            },
        }
    )
    table = with_members("10.0.0.16/28")
    patch = status_patch(pool, status_of(table, pool.status.conditions))
    assert patch["metadata"] == {"resourceVersion": "7"}
    status = patch["status"]
    assert status["allocatedCIDRs"] == {"10.0.0.0/28": None, "10.0.0.16/28": "c-u0"}
    assert status["freeCountBySize"]["99"] is None
    assert "somebodyElses" not in status
    assert foreign in status["conditions"]


def test_nothing_is_sent_when_everything_is_right() -> None:
    table = with_members("10.0.0.0/28")
    pool = SubnetPool.from_dict(
        {"metadata": {"name": "p", "namespace": "default"}, "spec": {"cidr": "10.0.0.0/26"}}
    )
    patch = status_patch(pool, status_of(table))
    settled = SubnetPool.from_dict({**pool.to_dict(), "status": patch["status"]})
    assert status_patch(settled, status_of(table, settled.status.conditions)) == {}


def test_one_controller_computes_the_status_of_pools_and_no_other() -> None:
    folder = Path(statuscalc.__file__).parents[1] / "controllers"
    users = [file.name for file in sorted(folder.glob("*.py")) if "statuscalc" in file.read_text()]
    assert users == ["poolstatus.py"]
