"""Helpers of the ipam tests: an operator on a test cluster, objects in one line, and the invariants."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from quarterdeck.api import Key, ObjectMeta, from_dict
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.operators.ipam.assembly import IpamOperator
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.logic.statuscalc import calculate
from quarterdeck.operators.ipam.types import (
    KINDS,
    Subnet,
    SubnetClaim,
    SubnetClaimSpec,
    SubnetPool,
    SubnetPoolClaim,
    SubnetPoolClaimSpec,
    SubnetPoolSpec,
    SubnetSpec,
)
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.testing import OperatorRun, TestCluster, run_until_idle

SPACE = "default"


def ipam_cluster(**options: Any) -> TestCluster:
    """A cluster with the four kinds and garbage collection."""
    return TestCluster(crds=KINDS, controllers=True, **options)


class Operator(OperatorRun):
    """One instance of the operator."""

    def __init__(
        self, cluster: TestCluster, settings: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(cluster, IpamOperator(), settings, name="ipam", **options)


async def settled(*managers: Manager, horizon: float = 20.0) -> None:
    """Let managers come to rest, and the cluster's own controllers too."""
    for _ in range(3):
        await asyncio.sleep(0.3)
        await run_until_idle(*managers, horizon=horizon)


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=SPACE, **more)


def pool(name: str = "p", cidr: str = "10.0.0.0/16", *, parent: str = "", **spec: Any) -> SubnetPool:
    labels = {"plexaubnet.io/parent": parent} if parent else {}
    return SubnetPool(
        metadata=meta(name, labels=labels), spec=from_dict({"cidr": cidr, **spec}, SubnetPoolSpec)
    )


def subnet(name: str, cidr: str, *, of: str = "p", cluster: str = "") -> Subnet:
    return Subnet(
        metadata=meta(name), spec=SubnetSpec(pool_ref=of, cidr=cidr, cluster_id=cluster or f"c-{name}")
    )


def claim(name: str, size: int | str = 24, *, of: str = "p", cluster: str = "") -> SubnetClaim:
    wanted = {"blockSize": size} if isinstance(size, int) else {"requestedCIDR": size}
    spec = from_dict({"poolRef": of, "clusterID": cluster or name, **wanted}, SubnetClaimSpec)
    return SubnetClaim(metadata=meta(name), spec=spec)


def pool_claim(name: str, size: int = 20, *, of: str = "p") -> SubnetPoolClaim:
    return SubnetPoolClaim(
        metadata=meta(name), spec=SubnetPoolClaimSpec(parent_pool_ref=of, desired_block_size=size)
    )


async def get_claim(client: Client, name: str) -> SubnetClaim:
    return await client.get(SubnetClaim, name, SPACE)


async def outcome(client: Client, name: str) -> tuple[str, str, str]:
    """Phase, CIDR and message of a claim."""
    status = (await get_claim(client, name)).status
    return status.phase, status.allocated_cidr, status.message


async def exists(client: Client, kind: Any, name: str) -> bool:
    try:
        await client.get(kind, name, SPACE)
    except NotFound:
        return False
    return True


async def force(client: Client, name: str) -> None:
    """End a pool that is being deleted although its blocks are in use."""
    held = await client.get(SubnetPool, name, SPACE)
    await client.patch(held, MergePatch({"metadata": {"finalizers": None}}))


def overlapping(subnets: list[Subnet]) -> list[tuple[str, str]]:
    """Pairs of Subnets of one pool that overlap."""
    networks = [(each.metadata.name, each.pool_ref, parse(each.spec.cidr)) for each in subnets if each.spec]
    return [
        (one, other)
        for (one, pool_of_one, left), (other, pool_of_other, right) in itertools.combinations(networks, 2)
        if pool_of_one == pool_of_other and left.overlaps(right)
    ]


async def check_invariants(client: Client, *, overlaps_allowed: bool = False) -> None:
    """I1, I2 and I4, from what the server has."""
    subnets = list(await client.list(Subnet, namespace=SPACE))
    claims = list(await client.list(SubnetClaim, namespace=SPACE))
    if not overlaps_allowed:
        assert overlapping(subnets) == []
    known = Counter((each.pool_ref, each.spec.cluster_id, each.spec.cidr) for each in subnets if each.spec)
    for each in claims:
        assert each.spec
        if each.status.phase == "Bound":
            of = (each.spec.pool_ref, each.spec.cluster_id, each.status.allocated_cidr)
            assert known[of] == 1, (each.metadata.name, of, known[of])
    for pool in await client.list(SubnetPool, namespace=SPACE):
        assert pool.spec
        members = [one for one in subnets if one.pool_ref == pool.metadata.name and one.spec]
        members.sort(key=lambda one: (str(one.metadata.creation_timestamp), one.metadata.name))
        pairs = [(one.spec.cidr, one.spec.cluster_id) for one in members if one.spec]
        count, free, cidrs = calculate(pool.spec.cidr, pairs)
        status = pool.status
        found = (status.allocated_count or 0, dict(status.free_count_by_size), dict(status.allocated_cidrs))
        assert found == (count, free, cidrs), pool.metadata.name


def key(name: str) -> Key:
    return Key(SPACE, name)
