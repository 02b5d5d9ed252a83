"""What happened in the last hours, as far as the board was there to see it: a bounded ring. Pure.

Samples say how many GPUs each queue and each gang had; happenings are evictions and restarts. Nothing is kept
beyond the process, and a day has a fixed size however large the cluster is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any, Final

from .section import Digests, Section
from .text import gang_name

Json = dict[str, Any]
PERIOD: Final = 30.0
"""Seconds between two samples."""
_SAMPLES: Final = 720
"""Six hours."""
_HAPPENINGS: Final = 500
_GANGS: Final = 20
"""Gangs that a sample names, the largest first; the others are one."""
_OTHERS: Final = "others"
_NO_QUEUE: Final = "no queue"


class History:
    """The ring."""

    def __init__(self) -> None:
        self._samples: Final[deque[Json]] = deque(maxlen=_SAMPLES)
        self._happenings: Final[deque[Json]] = deque(maxlen=_HAPPENINGS)
        self._restarts: dict[str, int] | None = None
        self._told: set[str] = set()
        """Evictions that were taken in: their events are seen again in every sample."""

    def take(self, time: str, sections: Mapping[str, Section], digests: Digests) -> None:
        """One sample of what is now."""
        gangs, nodes = sections.get("gangs", {}), sections.get("nodes", {})
        queues: dict[str, float] = defaultdict(float)
        by_gang: dict[str, float] = {}
        for key, gang in gangs.items():
            if gang["placedGpus"]:
                queues[gang["queue"] or _NO_QUEUE] += gang["placedGpus"]
                by_gang[_short(key)] = by_gang.get(_short(key), 0.0) + gang["placedGpus"]
        sample = {
            "time": time,
            "gpus": sum(node["gpus"] for node in nodes.values()),
            "queues": dict(queues),
            "gangs": _largest(by_gang),
        }
        self._samples.append(sample)
        self._take_evictions(digests)
        self._take_restarts(time, gangs)

    def _take_evictions(self, digests: Digests) -> None:
        events = digests.get("events", {})
        for key, event in sorted(events.items(), key=lambda item: str(item[1]["time"])):
            if event["reason"] == "Evict" and event["kind"] == "PodGroup" and key not in self._told:
                self._happenings.append(
                    {
                        "time": event["time"],
                        "what": "evicted",
                        "gang": _short(event["about"]),
                        "text": event["message"],
                    }
                )
        self._told = {key for key, event in events.items() if event["reason"] == "Evict"}

    def _take_restarts(self, time: str, gangs: Section) -> None:
        known, now = self._restarts, {key: int(gang["restarts"]) for key, gang in gangs.items()}
        for key, count in now.items() if known is not None else ():
            more = count - (known or {}).get(key, 0)
            if more > 0:
                happening = {
                    "time": time,
                    "what": "restarted",
                    "gang": _short(key),
                    "text": f"{more} times" if more > 1 else "once",
                }
                self._happenings.append(happening)
        self._restarts = now

    def told(self) -> Json:
        """All of it, the oldest first."""
        return {"samples": list(self._samples), "happenings": list(self._happenings)}


def _short(key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return f"{namespace}/{gang_name(name)}"


def _largest(gangs: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(gangs.items(), key=lambda item: (-item[1], item[0]))
    found = dict(ordered[:_GANGS])
    if rest := sum(gpus for _, gpus in ordered[_GANGS:]):
        found[_OTHERS] = rest
    return found
