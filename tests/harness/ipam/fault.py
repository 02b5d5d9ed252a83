"""The faults of ipam cases as rules of a plan, and a clock on which nobody waits long for what hangs."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import READS, WRITES, FaultRule, Latency, Refuse
from tests.harness.case import CaseFailure
from tests.harness.words import Words, refuse_unknown, words

from .names import resource_of

Json = dict[str, Any]

FAULT: Final[Words] = words(
    "verb", "resource", "code", "applyThenCode", "hangMs", "times", after=frozenset({"settle"})
)
_LONG: Final = 10.0
_FRACTION: Final = 0.02


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be moved on: nobody waits two minutes for a request that hangs."""

    _ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Move the clock; timers that become due run in the next turn."""
        self._ahead += seconds


class JumpingClock(LoopClock):
    """Waits long spans second by second, each in a fraction of one, while the others go on working."""

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds < _LONG or not isinstance(loop, JumpingLoop):
            await asyncio.sleep(seconds)
            return
        for _ in range(int(seconds)):
            await asyncio.sleep(_FRACTION)
            loop.advance(1.0 - _FRACTION)


def rules_of(raw: Json) -> tuple[FaultRule, ...]:
    """What happens to requests, as a case says it; raises CaseFailure for words that are not understood."""
    refuse_unknown(raw, FAULT, "given.faults")
    where: Json = {**_which(raw), "times": raw.get("times", 1)}
    rules: list[FaultRule] = []
    if "hangMs" in raw:
        rules.append(Latency((raw["hangMs"] / 1000,) * 2, **where))
    for word in ("code", "applyThenCode"):
        if word in raw:
            reason = "AlreadyExists" if raw[word] == 409 and raw["verb"] == "create" else ""
            rules.append(Refuse(raw[word], reason=reason, is_done=word == "applyThenCode", **where))
    return tuple(rules)


def _which(raw: Json) -> Json:
    """The requests that are meant: alternatives such as ``update|patch``; ``*`` is any."""
    verbs = frozenset(raw["verb"].split("|")) - {"*"}
    if verbs - READS - WRITES:
        raise CaseFailure(f"given.faults: verb {raw['verb']} is not understood")
    if raw["resource"] == "*":
        return {"verbs": verbs}
    resources, parts = set(), set()
    for each in raw["resource"].split("|"):
        resource, _, part = each.partition("/")
        resources.add(resource_of(resource))
        parts.add(part)
    if len(parts) != 1:
        raise CaseFailure(f"given.faults: resource {raw['resource']} is not understood")
    return {"verbs": verbs, "resources": frozenset(resources), "subresource": parts.pop()}
