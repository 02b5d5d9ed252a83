"""What the table keeps of an object: a few fields, already read."""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.codec import decode
from quarterdeck.api.finalizer import has_finalizer
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import Subnet, SubnetPool

from .network import IPV6, InvalidCidr, Network, parse, unpacked
from .occupancy import Rank

SMALLEST: Final = 16
"""Shortest prefix that a claim may ask for, unless the pool says otherwise."""
LARGEST_IPV4: Final = 28


class Member(msgspec.Struct, frozen=True, gc=False):
    """One Subnet; a million of them must fit."""

    uid: str
    namespace: str
    name: str
    pool: str
    block: int | None
    """Its range, packed; ``None`` if its CIDR cannot be read."""
    cluster_id: str
    created: str
    version: int
    """Resource version, 0 if it is no number."""

    @property
    def network(self) -> Network | None:
        """Its range; ``None`` if its CIDR cannot be read."""
        return unpacked(self.block) if self.block is not None else None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def pool_key(self) -> Key:
        """Its pool."""
        return Key(self.namespace, self.pool)

    @property
    def rank(self) -> Rank:
        """Its age."""
        return Rank(self.created, self.name)

    @property
    def text(self) -> str:
        """What it is, for people."""
        return f"Subnet {self.name} of pool {self.pool}"


class Child(msgspec.Struct, frozen=True):
    """A pool that names another one as its parent."""

    uid: str
    name: str
    network: Network | None
    created: str


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One SubnetPool."""

    uid: str
    version: int
    generation: int
    cidr: str
    """As written."""
    network: Network | None
    problem: str
    """Why there is no network."""
    default_size: int
    min_size: int
    """0 if there is no limit."""
    max_size: int
    strategy: str
    parent: str
    is_held: bool = True
    """Whether it has our finalizer, without which it may be gone at any moment."""
    is_deleting: bool
    created: str
    name: str

    @property
    def rank(self) -> Rank:
        """Its age."""
        return Rank(self.created, self.name)

    @property
    def smallest(self) -> int:
        """The shortest prefix a claim may ask for by size."""
        return self.min_size or SMALLEST

    @property
    def largest(self) -> int:
        """The longest prefix a claim may ask for by size."""
        if self.max_size:
            return self.max_size
        return IPV6 if self.network is not None and self.network.width == IPV6 else LARGEST_IPV4

    @property
    def usual_size(self) -> int:
        """The size of claims that name neither a size nor a CIDR."""
        network = self.network
        if network is not None and network.width == IPV6 and self.default_size < network.prefix:
            return 64 if network.prefix <= 64 else IPV6
        return self.default_size


def member_of(subnet: Subnet) -> Member | None:
    """What counts of a Subnet; nothing if it names no pool."""
    spec, metadata = subnet.spec, subnet.metadata
    if not spec or not spec.pool_ref:
        return None
    return Member(
        uid=_uid(metadata),
        namespace=intern(metadata.namespace),
        name=metadata.name,
        pool=intern(spec.pool_ref),
        block=_block(spec.cidr),
        cluster_id=spec.cluster_id,
        created=intern(_date(metadata)),
        version=version_number(metadata.resource_version),
    )


class _StoredMeta(msgspec.Struct, frozen=True):
    created: str | None = msgspec.field(name="creationTimestamp", default=None)


class _StoredSpec(msgspec.Struct, frozen=True):
    pool: str = msgspec.field(name="poolRef", default="")
    cidr: str = ""
    cluster_id: str = msgspec.field(name="clusterID", default="")


class _Stored(msgspec.Struct, frozen=True):
    metadata: _StoredMeta = _StoredMeta()
    spec: _StoredSpec | None = None


def stored_member(raw: bytes, *, uid: str, namespace: str, name: str, version: int) -> Member | None:
    """``member_of`` for JSON of which the identity is known already: a third of the work.

    A start has a million Subnets to read, and keeps these texts once. Raises ``SchemaError``.
    """
    stored = decode(raw, _Stored)
    spec = stored.spec
    if spec is None or not spec.pool:
        return None
    return Member(
        uid=uid,
        namespace=namespace,
        name=name,
        pool=intern(spec.pool),
        block=_block(spec.cidr),
        cluster_id=spec.cluster_id,
        created=intern(stored.metadata.created or ""),
        version=version,
    )


def _block(cidr: str) -> int | None:
    try:
        return parse(cidr).packed
    except InvalidCidr:
        return None


def pool_facts(pool: SubnetPool) -> PoolFacts:
    """What counts of a pool."""
    spec, metadata = pool.spec, pool.metadata
    cidr = spec.cidr if spec else ""
    network, problem = None, ""
    try:
        network = parse(cidr)
    except InvalidCidr as error:
        problem = f"invalid pool CIDR format: {error}"
    return PoolFacts(
        uid=_uid(metadata),
        version=version_number(metadata.resource_version),
        generation=metadata.generation,
        cidr=cidr,
        network=network,
        problem=problem,
        default_size=(spec and spec.default_block_size) or 24,
        min_size=(spec and spec.min_block_size) or 0,
        max_size=(spec and spec.max_block_size) or 0,
        strategy=(spec and spec.strategy) or names.LINEAR,
        parent=pool.parent if pool.parent != metadata.name else "",  # nothing is inside itself
        is_held=has_finalizer(metadata, names.FINALIZER),
        is_deleting=metadata.is_deleting,
        created=_date(metadata),
        name=metadata.name,
    )


def child_of(facts: PoolFacts) -> Child:
    """A pool as its parent sees it."""
    return Child(facts.uid, facts.name, facts.network, facts.created)


def version_number(version: str) -> int:
    """A resource version as a number; 0 where it is none."""
    return int(version) if version.isascii() and version.isdigit() else 0


def _uid(metadata: ObjectMeta) -> str:
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"


def _date(metadata: ObjectMeta) -> str:
    created = metadata.creation_timestamp
    return str(created) if created else ""
