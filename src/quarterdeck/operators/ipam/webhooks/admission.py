"""The admission hook: a guard for people who write Subnets and pools by hand.

It looks at the table, which is a moment behind the API server: two people at the same moment get past
it, and the controllers sort that out. While the table is not filled, and for Subnets of pools that do
not exist, it allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quarterdeck.api import Key
from quarterdeck.errors import Forbidden
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.facts import member_of, pool_facts
from quarterdeck.operators.ipam.logic.network import InvalidCidr, parse
from quarterdeck.operators.ipam.logic.pooltable import PoolTable
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.runtime.webhook import AdmissionWebhook, Validator
from quarterdeck.runtime.webhook.admission import Admission

IMMUTABLE: Final = "Subnet Spec fields are immutable"
_BY_OTHERS: Final = (
    "request.operation != 'CREATE' || !has(request.options.fieldManager)"
    f" || request.options.fieldManager != '{names.FIELD_MANAGER}'"
)
"""The allocator looks at the table itself before it creates anything: a call would only cost time."""


class IpamGuard:
    """Judges single requests."""

    def __init__(self, table: PoolTable, *, is_filled: Callable[[], bool], settings: IpamSettings) -> None:
        self._table: Final = table
        self._is_filled: Final = is_filled
        self._settings: Final = settings

    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """What to serve."""
        return (
            Validator(
                Subnet,
                self.check_subnet,
                update=self.check_change,
                failure_policy="Ignore",
                match_conditions={"not-by-the-allocator": _BY_OTHERS},
            ),
            Validator(
                SubnetPool,
                create=self.check_pool,
                update=self.check_range,
                delete=self.check_delete,
                failure_policy="Ignore",
            ),
        )

    def check_subnet(self, admission: Admission, subnet: Subnet) -> None:
        """A Subnet must be inside its pool, and over no other."""
        member = member_of(subnet)
        state = self._table.state(member.pool_key) if member is not None else None
        if member is None or member.network is None or state is None or not self._is_filled():
            return
        if state.facts is None or state.facts.network is None or not state.is_indexed:
            return
        if not state.facts.network.contains(member.network):
            raise Forbidden(f"subnet {member.network} is outside pool {state.facts.cidr}")
        other = state.overlapping_member(member.network, but=member.uid)
        if other is not None and other.name != member.name:
            raise Forbidden(f"subnet {member.network} overlaps with existing allocation {other.network}")
        for uid, foreign in state.foreign.items():
            theirs = self._table.member(uid)
            pool = self._table.state(theirs.pool_key) if theirs is not None else None
            if pool is not None and pool.facts is not None and foreign.network.overlaps(member.network):
                where = f"existing allocation {foreign.network}: {foreign.text}"
                raise Forbidden(f"subnet {member.network} overlaps with {where}")

    def check_change(self, admission: Admission, old: Subnet, new: Subnet) -> None:
        """Where Subnets are immutable, their spec does not change."""
        if self._settings.immutable_subnets and old.spec != new.spec:
            raise Forbidden(IMMUTABLE)

    def check_pool(self, admission: Admission, pool: SubnetPool) -> None:
        """Pools of a namespace do not overlap, except those that are inside each other on purpose."""
        facts = pool_facts(pool)
        if facts.network is None or not self._is_filled():
            return
        other = self._table.neighbours.overlapping(facts, pool.metadata.namespace)
        if other is not None:
            raise Forbidden(
                f"pool {facts.name} ({facts.network}) overlaps pool {other.name} ({other.network});"
                f" a pool inside another one has its name in the label {names.PARENT_LABEL}"
            )
        parent = self._table.state(Key(pool.metadata.namespace, facts.parent)) if facts.parent else None
        for _, block, _, text in parent.holders_over(facts.network) if parent is not None else ():
            if not block.contains(facts.network):
                raise Forbidden(f"pool {facts.name} ({facts.network}) contains {block}: {text}")

    def check_range(self, admission: Admission, old: SubnetPool, new: SubnetPool) -> None:
        """A pool may not shrink under its Subnets, nor come to overlap another one."""
        if pool_facts(old).network != pool_facts(new).network or old.parent != new.parent:
            self.check_pool(admission, new)
        state = self._table.state(Key(new.metadata.namespace, new.metadata.name))
        before, after = (old.spec and old.spec.cidr) or "", (new.spec and new.spec.cidr) or ""
        if before == after or state is None or not self._is_filled():
            return
        try:
            network = parse(after)
        except InvalidCidr:
            return
        inside = (member for uid, member in state.members.items() if uid not in state.outside)
        if any(member.network is not None and not network.contains(member.network) for member in inside):
            raise Forbidden(f"pool {new.metadata.name} has allocations outside {after}")

    def check_delete(self, admission: Admission, pool: SubnetPool) -> None:
        """A pool stays as long as it has child pools."""
        state = self._table.state(Key(pool.metadata.namespace, pool.metadata.name))
        if state is None or not state.children or not self._is_filled():
            return
        children = ", ".join(sorted(child.name for child in state.children.values()))
        raise Forbidden(f"pool {pool.metadata.name} has child pools: {children}")
