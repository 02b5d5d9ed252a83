"""Lists of resources: a name and a quantity each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from quarterdeck.api.quantity import Quantity

Amounts: TypeAlias = Mapping[str, Quantity]


def amounts_of(document: Mapping[str, Any] | None) -> dict[str, Quantity]:
    """The quantities of a resource list in a document."""
    return {name: Quantity(value) for name, value in (document or {}).items()}


def mask(amounts: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """Only the named resources."""
    return {name: amount for name, amount in amounts.items() if name in names}


def without_zeros(amounts: Amounts) -> dict[str, Quantity]:
    """Only what is not zero."""
    return {name: amount for name, amount in amounts.items() if amount}


def increase(new: Amounts, old: Amounts) -> dict[str, Quantity]:
    """By how much each resource grows from old to new; what shrinks grows by nothing."""
    nothing = Quantity("0")
    grown = {name: amount - old[name] if name in old else amount for name, amount in new.items()}
    return {name: amount if amount > nothing else nothing for name, amount in grown.items()}


def exceeding(amounts: Amounts, limits: Amounts) -> list[str]:
    """The names of which there is more than the limit."""
    return [name for name, limit in limits.items() if name in amounts and amounts[name] > limit]


def to_text(amounts: Amounts) -> str:
    """``cpu=1,memory=2Gi``, sorted by name."""
    return ",".join(f"{name}={amounts[name].canonical()}" for name in sorted(amounts))
