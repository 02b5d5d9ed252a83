"""Whether a write fits into the quotas of its namespace, and what they are used for if it does. Pure.

The texts of refusals are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from quarterdeck.api import Quantity
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.quantity import sum_quantities
from quarterdeck.api.quota import Amounts, Evaluator, amounts_of, mask, to_text
from quarterdeck.api.quota.amount import exceeding, increase, without_zeros
from quarterdeck.api.quota.evaluator import Operation
from quarterdeck.errors import QuarterdeckError


class QuotaRefusal(QuarterdeckError):
    """The write does not fit; the text says why."""


class Charge(msgspec.Struct, frozen=True):
    """The facts of a write that quotas look at."""

    evaluator: Evaluator
    operation: Operation
    subresource: str
    obj: Json
    old: Json | None
    now: float


class Balance:
    """One quota and what it will be used for when the writes checked so far are stored."""

    def __init__(self, quota: Json) -> None:
        self.quota: Final = quota
        status = quota.get("status") or {}
        self.hard: Final = amounts_of(status.get("hard"))
        self.before: Final = amounts_of(status.get("used"))
        self.used: Amounts = self.before

    @property
    def name(self) -> str:
        name: str = self.quota["metadata"]["name"]
        return name

    @property
    def has_changed(self) -> bool:
        return self.used != self.before

    def charge(self, requested: dict[str, Quantity], *, is_limited: bool) -> Amounts:
        """What would be used; raises QuotaRefusal where that is more than the quota allows."""
        counted = mask(requested, self.hard)
        used = sum_quantities((self.used, counted))
        if is_limited:
            exceeded = exceeding(mask(used, counted), self.hard)
            if exceeded:
                raise QuotaRefusal(
                    f"exceeded quota: {self.name}, requested: {to_text(mask(counted, exceeded))}, "
                    f"used: {to_text(mask(self.used, exceeded))}, "
                    f"limited: {to_text(mask(self.hard, exceeded))}"
                )
        return used


def take(charge: Charge, balances: Sequence[Balance]) -> bool:
    """Charge a write to all quotas that match it, or to none; True when one of them is used more.

    Raises QuotaRefusal.
    """
    interested = [balance for balance in balances if _matches(charge, balance)]
    if not interested:
        return False
    usage = charge.evaluator.usage(charge.obj, charge.now)
    negative = sorted(name for name, amount in usage.items() if amount.nano < 0)
    if negative:
        raise QuotaRefusal(f"quota usage is negative for resource(s): {','.join(negative)}")
    grown = usage
    if charge.operation == "UPDATE" and charge.old is not None:
        grown = increase(usage, charge.evaluator.usage(charge.old, charge.now))
    outcome: list[tuple[Balance, Amounts]] = []
    for balance in interested:
        # an object that only now comes into the scope of a quota is charged as a whole
        was_counted = charge.old is not None and charge.evaluator.matches(balance.quota, charge.old)
        requested = without_zeros(grown if was_counted else usage)
        if requested:
            used = balance.charge(requested, is_limited=charge.subresource != "status")
            outcome.append((balance, used))
    has_changed = False
    for balance, used in outcome:
        has_changed = has_changed or used != balance.used
        balance.used = used
    return has_changed


def _matches(charge: Charge, balance: Balance) -> bool:
    """Whether a quota concerns a write; raises QuotaRefusal if it cannot be measured."""
    evaluator = charge.evaluator
    if not evaluator.matches(balance.quota, charge.obj):
        return False
    names = evaluator.tracked(balance.hard)
    problem = evaluator.problem(names, charge.obj)
    if problem:
        raise QuotaRefusal(f"failed quota: {balance.name}: {problem}")
    if any(name not in balance.used for name in names):
        listed = ",".join(sorted(names))
        raise QuotaRefusal(f"status unknown for quota: {balance.name}, resources: {listed}")
    return True
