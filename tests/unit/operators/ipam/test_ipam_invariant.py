"""What ``quarterdeck check`` finds about pools, Subnets and claims."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Resource
from quarterdeck.api.k8s import Node
from quarterdeck.operators.ipam.logic.invariant import INVARIANTS
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetClaimStatus, SubnetPool, SubnetStatus
from tests.unit.operators.invariantkit import broken, made, owned


def found(name: str, *objects: Resource) -> list[tuple[str, str]]:
    return broken(INVARIANTS, name, *objects)


def subnet(name: str, cidr: str, *, pool: str = "p", cluster: str = "c", **more: Any) -> Subnet:
    spec = {"poolRef": pool, "cidr": cidr, "clusterID": cluster}
    return made(Subnet, name, spec=spec, status={"phase": "Allocated"}, **more)


def claim(name: str, cidr: str, **spec: Any) -> SubnetClaim:
    status = {"phase": "Bound", "allocatedCIDR": cidr}
    return made(SubnetClaim, name, spec={"poolRef": "p", "clusterID": "c", **spec}, status=status)


def node_with(name: str, *ranges: str) -> Node:
    return made(Node, name, meta={"namespace": ""}, spec={"podCIDRs": ranges})


def test_subnets_of_one_pool_do_not_overlap() -> None:
    apart = subnet("a", "10.0.0.0/24"), subnet("b", "10.0.1.0/24"), subnet("c", "10.0.0.0/24", pool="q")
    assert found("ipam/no-overlap", *apart) == []
    assert found("ipam/no-overlap", *apart, subnet("d", "10.0.1.128/25")) == [
        ("Subnet default/d", "10.0.1.128/25 overlaps 10.0.1.0/24 of Subnet default/b in the same pool")
    ]


def test_a_block_inside_an_earlier_wide_one_is_found_behind_others() -> None:
    blocks = subnet("wide", "10.0.0.0/16"), subnet("a", "10.0.1.0/24"), subnet("b", "10.0.2.0/24")
    assert [name for name, _ in found("ipam/no-overlap", *blocks)] == ["Subnet default/a", "Subnet default/b"]


def test_a_bound_claim_has_one_subnet() -> None:
    good = subnet("a", "10.0.0.0/24")
    assert found("ipam/bound-once", good, claim("x", "10.0.0.0/24")) == []
    assert found("ipam/bound-once", good, claim("x", "10.0.1.0/24")) == [
        ("SubnetClaim default/x", "is bound to 10.0.1.0/24 of p, and 0 Subnets of its cluster have it")
    ]
    twice = found("ipam/bound-once", good, subnet("b", "10.0.0.0/24"), claim("x", "10.0.0.0/24"))
    assert "2 Subnets" in twice[0][1]


def test_a_subnet_goes_with_its_claim() -> None:
    orphan = subnet("a", "10.0.0.0/24", meta=owned("SubnetClaim", "uid-x"))
    assert found("ipam/no-leak", orphan, claim("x", "10.0.0.0/24")) == []
    assert found("ipam/no-leak", orphan) == [
        ("Subnet default/a", "belongs to SubnetClaim owner, which is gone")
    ]


def test_the_status_of_a_pool_is_exact() -> None:
    def pool(count: int, free: int, generation: int = 1) -> SubnetPool:
        status: dict[str, Any] = {"allocatedCount": count, "observedGeneration": generation}
        sizes = {str(size): free << size - 24 for size in range(24, 29)}
        status["freeCountBySize"] = {str(size): 0 for size in range(16, 24)} | sizes | {"/24": free}
        return made(SubnetPool, "p", spec={"cidr": "10.0.0.0/23"}, status=status)

    member = subnet("a", "10.0.0.0/24")
    assert found("ipam/exact-status", member, pool(1, 1)) == []
    assert "allocatedCount 2, and has 1" in found("ipam/exact-status", member, pool(2, 1))[0][1]
    assert "freeCountBySize" in found("ipam/exact-status", member, pool(1, 2))[0][1]
    assert "generation 7" in found("ipam/exact-status", member, pool(1, 1, 7))[0][1]


def test_a_requested_block_is_not_replaced() -> None:
    assert found("ipam/as-requested", claim("x", "10.0.0.0/24", requestedCIDR="10.0.0.7/24")) == []
    assert found("ipam/as-requested", claim("x", "10.0.1.0/24", requestedCIDR="10.0.0.0/24")) == [
        ("SubnetClaim default/x", "asked for 10.0.0.0/24 and was given 10.0.1.0/24")
    ]


def test_a_parent_gives_nothing_out_of_a_child() -> None:
    child = made(
        SubnetPool, "child", meta={"labels": {"plexaubnet.io/parent": "p"}}, spec={"cidr": "10.0.0.0/24"}
    )
    assert found("ipam/child-ranges", child, subnet("holds", "10.0.0.0/24")) == []
    assert found("ipam/child-ranges", child, subnet("a", "10.0.0.0/26")) == [
        ("Subnet default/a", "10.0.0.0/26 of p lies inside the child pool child")
    ]


def test_a_node_has_the_range_that_is_claimed_for_it() -> None:
    status = {"phase": "Bound", "allocatedCIDR": "10.0.0.0/24"}
    of_node = made(SubnetClaim, "a-1", meta=owned("Node", "uid-a"), status=status)
    assert found("ipam/node-ranges", of_node, node_with("a", "10.0.0.0/24")) == []
    assert found("ipam/node-ranges", of_node, node_with("a", "10.0.1.0/24")) == [
        ("Node a", "its SubnetClaim has 10.0.0.0/24 for its pods, and its range is 10.0.1.0/24")
    ]


def test_a_block_that_failed_or_cannot_be_read_takes_nobodys_place() -> None:
    failed = subnet("a", "10.0.0.0/24").evolve(status=SubnetStatus(phase="Failed"))
    unreadable = subnet("b", "nonsense")
    assert found("ipam/no-overlap", failed, unreadable, subnet("c", "10.0.0.0/25")) == []
    assert found("ipam/bound-once", unreadable, claim("x", "nonsense")) == []


def test_a_claim_is_looked_at_when_it_is_bound() -> None:
    waiting = claim("x", "10.0.1.0/24").evolve(
        status=SubnetClaimStatus(phase="Pending", allocated_cidr="10.0.1.0/24")
    )
    assert found("ipam/bound-once", waiting) == []
    assert found("ipam/as-requested", waiting, claim("y", "10.0.1.0/24")) == []
    of_node = made(SubnetClaim, "n-1", meta=owned("Node", "uid-n"), status={"phase": "Pending"})
    assert found("ipam/node-ranges", of_node, node_with("n", "10.0.0.0/24")) == []
    assert found("ipam/node-ranges", claim("z", "10.0.0.0/24"), node_with("n")) == []


def test_a_subnet_of_another_cluster_is_not_the_claims() -> None:
    theirs = subnet("a", "10.0.0.0/24", cluster="d")
    assert "0 Subnets" in found("ipam/bound-once", theirs, claim("x", "10.0.0.0/24"))[0][1]
    other_pool = subnet("a", "10.0.0.0/24", pool="q")
    assert "0 Subnets" in found("ipam/bound-once", other_pool, claim("x", "10.0.0.0/24"))[0][1]


def test_a_subnet_that_nobody_claimed_or_that_one_of_two_claims_has_is_no_leak() -> None:
    assert found("ipam/no-leak", subnet("a", "10.0.0.0/24", meta=owned("Node", "uid-n"))) == []
    both = owned("SubnetClaim", "uid-x")["ownerReferences"] + owned("SubnetClaim", "uid-y")["ownerReferences"]
    shared = subnet("a", "10.0.0.0/24", meta={"ownerReferences": both})
    assert found("ipam/no-leak", shared, claim("y", "10.0.0.0/24")) == []


def test_a_claim_that_was_edited_keeps_its_block() -> None:
    edited = claim("x", "10.0.1.0/24", requestedCIDR="10.0.0.0/24")
    edited = edited.evolve(metadata=edited.metadata.evolve(generation=2))
    assert found("ipam/as-requested", edited) == []


def test_a_pool_without_a_range_has_no_status_to_be_wrong() -> None:
    assert found("ipam/exact-status", made(SubnetPool, "p"), subnet("a", "10.0.0.0/24")) == []
    odd = made(SubnetPool, "p", spec={"cidr": "nonsense"})
    assert found("ipam/exact-status", odd, subnet("a", "10.0.0.0/24")) == []
    assert found("ipam/child-ranges", odd, subnet("a", "10.0.0.0/24")) == []


def pool_of(name: str, cidr: str, *, parent: str = "", created: str = "2030-01-01T00:00:00Z") -> SubnetPool:
    meta: dict[str, Any] = {"labels": {"plexaubnet.io/parent": parent} if parent else {}}
    return made(SubnetPool, name, meta=meta | {"creationTimestamp": created}, spec={"cidr": cidr})


GONE = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


def test_a_block_is_given_by_one_pool_whether_the_pool_is_there_or_gone() -> None:
    one, other = subnet("a", "10.0.0.0/24"), subnet("b", "10.0.0.128/25", pool="q")
    text = "10.0.0.128/25 of pool q overlaps 10.0.0.0/24 of Subnet a of pool p"
    assert found("ipam/given-once", one, other) == [("Subnet default/b", text)]
    failed = one.evolve(status=SubnetStatus(phase="Failed"))
    assert found("ipam/given-once", failed, other) == [("Subnet default/b", text)]
    leaving = subnet("b", "10.0.0.128/25", pool="q", meta=GONE)
    assert found("ipam/given-once", one, leaving) == [("Subnet default/b", text)]
    elsewhere = subnet("b", "10.0.0.128/25", pool="q", meta={"namespace": "other"})
    assert found("ipam/given-once", one, elsewhere, subnet("c", "10.0.1.0/24", pool="r")) == []


def test_what_holds_the_range_of_a_child_pool_is_no_block_given_twice() -> None:
    parent, child = pool_of("p", "10.0.0.0/16"), pool_of("q", "10.0.0.0/24", parent="p")
    below = pool_of("r", "10.0.0.0/25", parent="q")
    held = (
        subnet("a", "10.0.0.0/24"),
        subnet("b", "10.0.0.0/25", pool="q"),
        subnet("c", "10.0.0.0/26", pool="r"),
    )
    assert found("ipam/given-once", parent, child, below, *held) == []
    whole = subnet("d", "10.0.0.0/24", pool="q")
    assert found("ipam/given-once", parent, child, subnet("a", "10.0.0.0/24"), whole) == []
    assert len(found("ipam/given-once", parent, child, subnet("a", "10.0.0.0/26"), whole)) == 1


def test_pools_overlap_as_parent_and_child_only() -> None:
    parent, child = pool_of("p", "10.0.0.0/16"), pool_of("q", "10.0.0.0/24", parent="p")
    assert found("ipam/pools-apart", parent, child, pool_of("r", "10.1.0.0/16")) == []
    young = pool_of("a", "10.0.0.0/8", created="2031-01-01T00:00:00Z")
    assert found("ipam/pools-apart", parent, young) == [
        ("SubnetPool default/a", "10.0.0.0/8 overlaps 10.0.0.0/16 of pool p")
    ]
    sister = pool_of("s", "10.0.0.0/25", parent="p")
    assert [each for each, _ in found("ipam/pools-apart", parent, child, sister)] == ["SubnetPool default/s"]


def test_a_bound_claim_has_its_pool() -> None:
    assert found("ipam/pool-there", claim("x", "10.0.0.0/24"), pool_of("p", "10.0.0.0/16")) == []
    assert found("ipam/pool-there", claim("x", "10.0.0.0/24")) == [
        ("SubnetClaim default/x", "is bound to 10.0.0.0/24, and there is no pool p")
    ]


def test_what_is_allowed_is_no_alarm() -> None:
    mine = subnet("a", "10.0.0.0/24", meta=owned("SubnetClaim", "uid-x"))
    edited = claim("x", "10.0.0.0/24", poolRef="q", clusterID="d")
    assert found("ipam/bound-once", mine, edited) == []
    leaving = made(SubnetClaim, "x", meta=GONE)
    assert found("ipam/no-leak", mine, leaving) == []
    shared = subnet("a", "10.0.0.0/24")
    assert found("ipam/as-requested", shared, claim("x", "10.0.0.0/24", requestedCIDR="10.0.1.0/24")) == []
    status = {"phase": "Bound", "allocatedCIDR": "2001:db8::/64"}
    of_node = made(SubnetClaim, "a-1", meta=owned("Node", "uid-a"), status=status)
    assert found("ipam/node-ranges", of_node, node_with("a", "2001:DB8:0::/64")) == []
