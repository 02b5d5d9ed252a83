"""How long after a failure no new pod is made: 10 s, doubled by each failure in a row, 10 min at most.

Failures in a row are remembered per Job by the controller; a process that starts anew begins at zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from quarterdeck.cluster.job.podstate import PodState


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the Job controller, in seconds."""

    backoff_base: float = 10.0
    """Wait after the first failure of a pod."""
    backoff_cap: float = 600.0
    """Longest wait after a failure of a pod."""
    batch_period: float = 0.1
    """Changes of pods within this time are handled together."""
    batch_period_per_pod: float = 0.0001
    """Added to it for each pod of the Job: every look is a look at all of them."""


class Failures(NamedTuple):
    """Failures in a row of one Job."""

    number: int = 0
    last: float = 0.0
    """When the last pod failed, seconds since 1970."""

    def after(self, succeeded: Iterable[PodState], failed: Iterable[PodState]) -> Failures:
        """With pods that ended since; a success ends the row."""
        ends = sorted(pod.finish_time for pod in failed)
        last_success = max((pod.finish_time for pod in succeeded), default=None)
        if last_success is None:
            return Failures(self.number + len(ends), ends[-1]) if ends else self
        later = [end for end in ends if end > last_success]
        return Failures(len(later), later[-1]) if later else NO_FAILURES


NO_FAILURES: Final = Failures()


def remaining(failures: Failures, now: float, settings: JobSettings) -> float:
    """Seconds until a new pod may be made; zero if it may now."""
    if failures.number == 0:
        return 0.0
    # Beyond some doublings the cap is reached, whatever the base; the power must not grow without bound.
    wait = min(settings.backoff_base * 2.0 ** min(failures.number - 1, 32), settings.backoff_cap)
    return max(0.0, wait - (now - failures.last))
