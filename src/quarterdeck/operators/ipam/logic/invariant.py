"""What holds between pools, Subnets and claims, whoever wrote them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

from quarterdeck.api import Key, Resource, controller_of
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Node
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool

from .facts import Member, PoolFacts, member_of, pool_facts
from .neighbour import is_inside
from .network import InvalidCidr, Network, parse
from .statuscalc import calculate

Found: TypeAlias = Iterator[tuple[Resource, str, str]]
T = TypeVar("T")


def _network(text: str) -> Network | None:
    try:
        return parse(text)
    except InvalidCidr:
        return None


def _blocks(subnets: Iterable[Subnet]) -> dict[Key, list[tuple[Network, Member, Subnet]]]:
    """The readable blocks of each pool, in order of their addresses."""
    found: dict[Key, list[tuple[Network, Member, Subnet]]] = defaultdict(list)
    for subnet in subnets:
        member = member_of(subnet)
        if member is not None and member.network is not None:
            found[member.pool_key].append((member.network, member, subnet))
    for blocks in found.values():
        blocks.sort(key=lambda block: (_order(block[0]), block[1].rank))
    return found


def _overlaps(objects: Objects) -> Found:
    for blocks in _blocks(objects.every(Subnet)).values():
        widest: tuple[Network, Subnet] | None = None
        for network, _, subnet in blocks:
            if widest is not None and widest[0].overlaps(network):
                other = f"{widest[1].metadata.namespace}/{widest[1].metadata.name}"
                problem = f"{network} overlaps {widest[0]} of Subnet {other} in the same pool"
                yield subnet, problem, "delete the younger of the two; its claim gets another block"
            elif subnet.status.phase != names.FAILED:
                widest = network, subnet


def _given_twice(objects: Objects) -> Found:
    """Blocks of different pools that overlap; those of pools that are gone are in use like all others."""
    pools = _pools(objects)
    spaces: dict[str, list[tuple[Network, Member, Subnet]]] = defaultdict(list)
    for blocks in _blocks(objects.every(Subnet)).values():
        for block in blocks:
            spaces[block[1].namespace].append(block)
    for namespace, blocks in spaces.items():
        known = pools[namespace]
        for (_, other, _), (network, member, subnet) in _nested(blocks, lambda block: block[0]):
            if other.pool == member.pool or _is_holder(other, member, known):
                continue
            problem = f"{network} of pool {member.pool} overlaps {other.network} of {other.text}"
            yield subnet, problem, "delete one of the two, and its claim; pools must not overlap"


def _nested(items: Iterable[T], network_of: Callable[[T], Network]) -> Iterator[tuple[T, T]]:
    """All pairs of which the first is around the second, or equal to it."""
    around: list[T] = []
    for item in sorted(items, key=lambda each: _order(network_of(each))):
        while around and not network_of(around[-1]).contains(network_of(item)):
            around.pop()
        for outer in around:
            yield outer, item
        around.append(item)


def _order(network: Network) -> tuple[int, int, int]:
    """Sorts networks so that each comes behind those around it."""
    return network.width, network.address, network.prefix


def _is_holder(one: Member, other: Member, pools: Mapping[str, PoolFacts]) -> bool:
    """Whether one of two blocks is what the pool of the other was made of."""
    for upper, lower in ((one, other), (other, one)):
        below = pools.get(lower.pool)
        if below is None or below.network is None or upper.network is None:
            continue
        if upper.network.contains(below.network) and is_inside(below, upper.pool, pools.get):
            return True
    return False


def _pools(objects: Objects) -> dict[str, dict[str, PoolFacts]]:
    """What the pools of each namespace say, by name."""
    found: dict[str, dict[str, PoolFacts]] = defaultdict(dict)
    for pool in objects.every(SubnetPool):
        found[pool.metadata.namespace][pool.metadata.name] = pool_facts(pool)
    return found


def _overlapping_pools(objects: Objects) -> Found:
    everyone = {pool.key: pool for pool in objects.every(SubnetPool)}
    for namespace, known in _pools(objects).items():
        ranges = [(facts.network, facts) for facts in known.values() if facts.network is not None]
        for (_, one), (_, other) in _nested(ranges, lambda each: each[0]):
            if is_inside(one, other.name, known.get) or is_inside(other, one.name, known.get):
                continue
            elder, younger = sorted((one, other), key=lambda facts: facts.rank)
            problem = f"{younger.network} overlaps {elder.network} of pool {elder.name}"
            remedy = f"change or delete one of them, or label it {names.PARENT_LABEL}"
            yield everyone[Key(namespace, younger.name)], problem, remedy


def _poolless_claims(objects: Objects) -> Found:
    pools = {pool.key for pool in objects.every(SubnetPool)}
    for claim in objects.of(SubnetClaim):
        if claim.spec and claim.status.phase == names.BOUND:
            pool = Key(claim.metadata.namespace, claim.spec.pool_ref)
            if pool not in pools and claim.metadata.generation == 1:  # an edit does not move a bound claim
                problem = f"is bound to {claim.status.allocated_cidr}, and there is no pool {pool.name}"
                yield claim, problem, "is the operator running? create the pool again, or delete the claim"


def _bound_claims(objects: Objects) -> Found:
    known: Counter[tuple[Key, str, Network]] = Counter()
    owned: Counter[tuple[str, Network]] = Counter()
    for subnet in objects.every(Subnet):
        member = member_of(subnet)
        if member is not None and member.network is not None:
            known[member.pool_key, member.cluster_id, member.network] += 1
            owned.update((owner.uid, member.network) for owner in subnet.metadata.owner_references)
    for claim in objects.of(SubnetClaim):
        network = _network(claim.status.allocated_cidr)
        if not claim.spec or claim.status.phase != names.BOUND or network is None:
            continue
        pool = Key(claim.metadata.namespace, claim.spec.pool_ref)
        # A bound claim that was edited names another pool or cluster; its Subnet is the one it owns.
        count = known[pool, claim.spec.cluster_id, network] or owned[claim.metadata.uid, network]
        if count != 1:
            problem = f"is bound to {network} of {pool.name}, and {count} Subnets of its cluster have it"
            yield claim, problem, "see the operator's log; it repairs this as long as the block is free"


def _leaks(objects: Objects) -> Found:
    claims = {claim.metadata.uid for claim in objects.every(SubnetClaim)}
    for subnet in objects.of(Subnet):
        owners = [each for each in subnet.metadata.owner_references if each.kind == "SubnetClaim"]
        if owners and not any(each.uid in claims for each in owners):
            problem = f"belongs to SubnetClaim {owners[0].name}, which is gone"
            yield subnet, problem, "the garbage collector removes it; if it stays, delete it"


def _statuses(objects: Objects) -> Found:
    members: dict[Key, list[Member]] = defaultdict(list)
    for subnet in objects.every(Subnet):
        member = member_of(subnet)
        if member is not None:
            members[member.pool_key].append(member)
    for pool in objects.of(SubnetPool):
        found = sorted(members[pool.key], key=lambda member: member.rank)
        if not pool.spec or pool_facts(pool).network is None:
            continue
        count = len(found)
        pairs = [(str(each.network), each.cluster_id) for each in found if each.network is not None]
        _, free, _ = calculate(pool.spec.cidr, pairs)
        shown = pool.status.allocated_count or 0
        if shown != count:
            problem = f"says allocatedCount {shown}, and has {count} Subnets"
            yield pool, problem, "is the operator running? POST to its trigger looks at the pool again"
        elif any(pool.status.free_count_by_size.get(size) != number for size, number in free.items()):
            problem = "its freeCountBySize is not what its Subnets leave"
            yield pool, problem, "is the operator running? POST to its trigger looks at the pool again"
        elif pool.status.observed_generation != pool.metadata.generation:
            problem = f"its status is of generation {pool.status.observed_generation}"
            yield pool, problem, "is the operator running?"


def _requested(objects: Objects) -> Found:
    made_for: dict[tuple[Key, str, Network], str] = {}
    """The claims whose Subnets these are; claims of one cluster share what the first of them got."""
    for subnet in objects.every(Subnet):
        member = member_of(subnet)
        if member is not None and member.network is not None:
            claim_ref = subnet.spec.claim_ref if subnet.spec else None
            key = member.pool_key, member.cluster_id, member.network
            made_for[key] = claim_ref.uid if claim_ref else ""
    for claim in objects.of(SubnetClaim):
        wanted = _network(claim.spec.requested_cidr) if claim.spec and claim.spec.requested_cidr else None
        given = _network(claim.status.allocated_cidr)
        if wanted is None or given is None or claim.status.phase != names.BOUND or wanted == given:
            continue
        pool = Key(claim.metadata.namespace, claim.spec.pool_ref if claim.spec else "")
        first = made_for.get((pool, claim.spec.cluster_id if claim.spec else "", given), claim.metadata.uid)
        # A bound claim keeps its block when it is edited.
        if claim.metadata.generation == 1 and first == claim.metadata.uid:
            problem = f"asked for {wanted} and was given {given}"
            yield claim, problem, "delete the claim and create it again"


def _children(objects: Objects) -> Found:
    blocks = _blocks(objects.every(Subnet))
    for pool in objects.every(SubnetPool):
        facts = pool_facts(pool)
        if not facts.parent or facts.network is None:
            continue
        for network, _, subnet in blocks.get(Key(pool.metadata.namespace, facts.parent), ()):
            if facts.network != network and facts.network.contains(network):
                problem = f"{network} of {facts.parent} lies inside the child pool {facts.name}"
                yield subnet, problem, "delete one of the two; the child pool's range is not its parent's"


def _node_ranges(objects: Objects) -> Found:
    nodes = {node.metadata.uid: node for node in objects.of(Node)}
    for claim in objects.of(SubnetClaim):
        owner = controller_of(claim.metadata.owner_references)
        node = nodes.get(owner.uid) if owner is not None else None
        given = claim.status.allocated_cidr
        if node is None or claim.status.phase != names.BOUND:
            continue
        if _network(given) in [_network(each) for each in node.spec.pod_cidrs]:
            continue
        has = ", ".join(node.spec.pod_cidrs) or "none"
        yield (
            node,
            f"its SubnetClaim has {given} for its pods, and its range is {has}",
            "is the operator running?",
        )


_ALL: Final = (SubnetPool, Subnet, SubnetClaim)
INVARIANTS: Final = (
    Invariant("ipam/no-overlap", "No two Subnets of a pool overlap.", (Subnet,), _overlaps),
    Invariant(
        "ipam/given-once", "No block is given by two pools of a namespace.", _ALL[:2], _given_twice, True
    ),
    Invariant(
        "ipam/pools-apart",
        "Pools of a namespace overlap only as parent and child.",
        _ALL[:1],
        _overlapping_pools,
    ),
    Invariant(
        "ipam/pool-there", "A bound claim has its pool.", (SubnetPool, SubnetClaim), _poolless_claims, True
    ),
    Invariant(
        "ipam/bound-once", "A bound claim has exactly one Subnet.", (Subnet, SubnetClaim), _bound_claims, True
    ),
    Invariant("ipam/no-leak", "A Subnet made for claims goes with the last of them.", _ALL[1:], _leaks, True),
    Invariant("ipam/exact-status", "The status of a pool is exact.", _ALL[:2], _statuses, True),
    Invariant(
        "ipam/as-requested", "A requested CIDR is granted or refused, never replaced.", _ALL[1:], _requested
    ),
    Invariant(
        "ipam/node-ranges",
        "A node has the range that is claimed for it.",
        (Node, SubnetClaim),
        _node_ranges,
        True,
    ),
    Invariant("ipam/child-ranges", "A pool gives nothing out of a child pool.", _ALL[:2], _children),
)
