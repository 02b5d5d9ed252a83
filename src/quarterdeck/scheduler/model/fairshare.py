"""Dividing one resource between sibling queues.

Quotas come first, whatever the total. What is left goes, in order of queue priority, to those who ask for
more, by over-quota weight and in whole units; what rounding leaves over goes to the largest remainders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from quarterdeck.scheduler.snapshot import UNLIMITED


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue may get of the resource and what it asks for."""

    name: str
    quota: float
    limit: float
    weight: float
    request: float
    priority: int = 100
    created: float = 0.0
    usage: float = 0.0
    """Past use as a part of the total; lowers the weight."""

    @property
    def requestable(self) -> float:
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def divide(total: float, claims: Iterable[Claim], k: float = 1.0) -> dict[str, float]:
    """The fair share of each queue, by name; ``k`` is how strongly past use counts."""
    ordered = sorted(claims, key=lambda claim: claim.name)
    shares: dict[str, float] = {}
    for claim in ordered:
        shares[claim.name] = min(total if claim.quota == UNLIMITED else claim.quota, claim.requestable)
    remaining = total - sum(shares.values())
    if remaining <= 0:
        return shares
    groups = _by_priority(ordered)
    remainders: list[dict[str, float]] = []
    for group in groups:
        remaining, remainder = _divide_by_weight(remaining, group, shares, k)
        remainders.append(remainder)
    for group, remainder in zip(groups, remainders, strict=True):
        remaining = _hand_out(remaining, group, remainder, shares)
    return shares


def _by_priority(claims: Sequence[Claim]) -> list[list[Claim]]:
    priorities = sorted({claim.priority for claim in claims}, reverse=True)
    return [[claim for claim in claims if claim.priority == priority] for priority in priorities]


def _divide_by_weight(
    remaining: float, claims: Sequence[Claim], shares: dict[str, float], k: float
) -> tuple[float, dict[str, float]]:
    """Rounds until nobody left a part of what was meant for it; returns the rest and who is owed how much."""
    remainders: dict[str, float] = {}
    another = True
    while another and remaining > 0:
        another = False
        available = remaining
        weights = _weights(claims, shares, k)
        total_weight = sum(weights.values())
        if not total_weight:
            break
        for claim in claims:
            if remaining == 0:
                break
            if claim.name not in weights or not claim.weight:
                continue
            part = available * (weights[claim.name] / total_weight)
            unmet = _unmet(claim, shares)
            if unmet <= part:
                given = unmet
                remainders.pop(claim.name, None)
            else:
                given = math.floor(part)
                if part > given:
                    remainders[claim.name] = part - given
            if given:
                shares[claim.name] += given
                remaining -= given
                another = another or unmet < part
    return remaining, remainders


def _weights(claims: Sequence[Claim], shares: dict[str, float], k: float) -> dict[str, float]:
    """Weights of those who want more."""
    total = sum(claim.weight for claim in claims if _unmet(claim, shares) > 0)
    if not total:
        return {}
    weights = {}
    for claim in claims:
        if not _is_satisfied(claim, shares[claim.name]):
            part = claim.weight / total
            weights[claim.name] = max(0.0, part + k * (part - claim.usage))
    return weights


def _unmet(claim: Claim, shares: dict[str, float]) -> float:
    return max(0.0, claim.requestable - shares[claim.name])


def _is_satisfied(claim: Claim, share: float) -> bool:
    return claim.request <= share or (claim.limit != UNLIMITED and claim.limit <= share)


def _hand_out(
    remaining: float, claims: Sequence[Claim], remainders: dict[str, float], shares: dict[str, float]
) -> float:
    """Whole units to those whom rounding took most from; then to the older queue."""
    owed = sorted(
        (-remainders[claim.name], claim.created, claim.name) for claim in claims if claim.name in remainders
    )
    for _, _, name in owed:
        if remaining <= 0:
            break
        given = min(1.0, remaining)
        shares[name] += given
        remaining -= given
    return remaining
