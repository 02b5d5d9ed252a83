"""How fast the number of pods may change: pure, but for what it remembers.

Recommendations of the last minutes keep it from going down too early; policies limit how much it changes
within their period. Both are remembered here and forgotten by a process that starts anew, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from quarterdeck.api import value_or
from quarterdeck.api.k8s.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingRules

STABILIZATION: Final = 300
"""Seconds for which the number of pods does not go down below what was recommended."""
_FACTOR: Final = 2
_AT_LEAST: Final = 4
_STABLE: Final = (
    "recent recommendations were higher than current one, applying the highest recent recommendation"
)
_STABLE_UP: Final = (
    "recent recommendations were lower than current one, applying the lowest recent recommendation"
)
_FAST_UP: Final = "the desired replica count is increasing faster than the maximum scale rate"
_FAST_DOWN: Final = "the desired replica count is decreasing faster than the maximum scale rate"
_MANY: Final = "the desired replica count is more than the maximum replica count"
_FEW: Final = "the desired replica count is less than the minimum replica count"
_FINE: Final = "the desired count is within the acceptable range"


class Reason(NamedTuple):
    """Why: a word and a sentence."""

    word: str
    text: str


class Limited(NamedTuple):
    """What is left of a recommendation."""

    replicas: int
    stability: Reason
    """Whether earlier recommendations have changed it."""
    limit: Reason
    """What limits it."""
    is_limited: bool


class ScaleMemory:
    """What was recommended and done for one autoscaler."""

    def __init__(self, replicas: int, now: float) -> None:
        self._recommended: list[tuple[float, int]] = [(now, replicas)]
        self._ups: list[tuple[float, int]] = []
        self._downs: list[tuple[float, int]] = []

    def limit(
        self,
        behavior: HorizontalPodAutoscalerBehavior | None,
        current: int,
        desired: int,
        least: int,
        most: int,
        now: float,
    ) -> Limited:
        """A recommendation as it may be followed now; it is remembered."""
        if behavior is None:
            return self._limit_as_ever(current, desired, least, most, now)
        up, down = behavior.scale_up or HPAScalingRules(), behavior.scale_down or HPAScalingRules()
        up_window = value_or(up.stabilization_window_seconds, 0)
        down_window = value_or(down.stabilization_window_seconds, STABILIZATION)
        lowest = min([desired, *self._since(now - up_window)])
        highest = max([desired, *self._since(now - down_window)])
        stable = min(max(current, lowest), highest)
        self._remember(desired, now, max(up_window, down_window))
        if stable == desired:
            stability = Reason("ReadyForNewScale", "recommended size matches current size")
        elif desired >= current:
            stability = Reason("ScaleUpStabilized", _STABLE_UP)
        else:
            stability = Reason("ScaleDownStabilized", _STABLE)
        replicas, limit = self._by_policies(up, down, current, stable, least, most, now)
        return Limited(replicas, stability, limit, replicas != stable)

    def _limit_as_ever(self, current: int, desired: int, least: int, most: int, now: float) -> Limited:
        stable = max([desired, *self._since(now - STABILIZATION)])
        self._remember(desired, now, STABILIZATION)
        stability = Reason("ReadyForNewScale", "recommended size matches current size")
        if stable != desired:
            stability = Reason("ScaleDownStabilized", _STABLE)
        fastest = max(_FACTOR * current, _AT_LEAST)
        upper, limit = (
            (fastest, Reason("ScaleUpLimit", _FAST_UP))
            if most > fastest
            else (
                most,
                Reason("TooManyReplicas", _MANY),
            )
        )
        if stable < least:
            return Limited(least, stability, Reason("TooFewReplicas", _FEW), True)
        if stable > upper:
            return Limited(upper, stability, limit, True)
        return Limited(stable, stability, Reason("DesiredWithinRange", _FINE), False)

    def _since(self, time: float) -> list[int]:
        return [number for when, number in self._recommended if when > time]

    def _remember(self, number: int, now: float, window: float) -> None:
        self._recommended = [each for each in self._recommended if each[0] >= now - window]
        self._recommended.append((now, number))

    def scaled(
        self, behavior: HorizontalPodAutoscalerBehavior | None, before: int, after: int, now: float
    ) -> None:
        """The number of pods was changed."""
        if behavior is None or before == after:
            return
        rules = behavior.scale_up if after > before else behavior.scale_down
        period = max((value_or(each.period_seconds, 0) for each in rules.policies), default=0) if rules else 0
        events = self._ups if after > before else self._downs
        events[:] = [each for each in events if each[0] >= now - period]
        events.append((now, abs(after - before)))

    def _by_policies(
        self,
        up: HPAScalingRules,
        down: HPAScalingRules,
        current: int,
        desired: int,
        least: int,
        most: int,
        now: float,
    ) -> tuple[int, Reason]:
        if desired > current:
            fastest = max(self._boundary(up, current, now, is_up=True), current)
            upper, reason = (
                (fastest, Reason("ScaleUpLimit", _FAST_UP))
                if most > fastest
                else (most, Reason("TooManyReplicas", _MANY))
            )
            if desired > upper:
                return upper, reason
        elif desired < current:
            slowest = min(self._boundary(down, current, now, is_up=False), current)
            lower, reason = (
                (slowest, Reason("ScaleDownLimit", _FAST_DOWN))
                if least < slowest
                else (least, Reason("TooFewReplicas", _FEW))
            )
            if desired < lower:
                return lower, reason
        return desired, Reason("DesiredWithinRange", _FINE)

    def _boundary(self, rules: HPAScalingRules, current: int, now: float, *, is_up: bool) -> int:
        """How far policies allow to go."""
        choice = value_or(rules.select_policy, "Max")
        if choice == "Disabled":
            return current
        proposals = []
        for each in rules.policies:
            period = value_or(each.period_seconds, 0)
            value = value_or(each.value, 0)
            start = current - _change(self._ups, period, now) + _change(self._downs, period, now)
            if each.type == "Pods":
                proposals.append(start + value if is_up else start - value)
            elif is_up:
                proposals.append(ceil(start * (1 + value / 100)))
            else:
                proposals.append(int(start * (1 - value / 100)))
        if not proposals:
            return current
        return max(proposals) if is_up == (choice != "Min") else min(proposals)


def _change(events: Sequence[tuple[float, int]], period: float, now: float) -> int:
    return sum(number for when, number in events if when > now - period)
