"""Fault plans: what goes wrong between a client and the cluster, the same way every time.

A plan is a seed and some rules. Each rule says what happens, how often (``rate``), to which requests
(``verbs``, ``resources``, ``subresource``, ``parameter``, ``nth``) and when (``since``, ``until``: seconds
after the first request of the plan)::

    plan = FaultPlan(
        7,
        Refuse(429, retry_after=1, rate=0.1),
        Refuse(409, rate=0.1, verbs=WRITES),
        LoseAnswer(rate=0.02, verbs=WRITES),
        CutWatch((1.0, 1.0)),
        WatchError(410, (5.0, 20.0)),
    )

Requests meet the rules in order: delays add up, the first other fault that strikes is the one that
happens. A watch ends by whichever of its rules comes first. ``plan.struck`` counts what happened.

Nothing here does anything: a plan only decides. ``quarterdeck.testing.link`` acts on it.
"""

import random
from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.client.call import WRITES

READS: Final = frozenset({"get", "list", "watch"})
Span: TypeAlias = tuple[float, float]
"""Seconds, drawn between two bounds."""


class RequestTarget(msgspec.Struct, frozen=True):
    """What a request is about, as far as rules look at it."""

    verb: str
    """get, list, watch, create, update, patch, apply, delete, deletecollection."""
    resource: str = ""
    """``pods``, ``widgets.example.com``; empty for paths that are no resources (discovery, health)."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    parameters: frozenset[str] = frozenset()
    """Names of the query parameters: ``limit``, ``sendInitialEvents``."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault strikes; what it does is the class."""

    rate: float = 1.0
    """Chance that it strikes a request that the rest of the rule fits."""
    verbs: frozenset[str] = frozenset()
    """Only these verbs; none means all."""
    resources: frozenset[str] = frozenset()
    """Only these resources; none means all."""
    subresource: str | None = None
    """Only this subresource; empty for objects as a whole, ``None`` means all."""
    parameter: str = ""
    """Only requests with this query parameter; empty means all.

    ``Refuse(422, parameter="sendInitialEvents")`` is a server that does not stream lists.
    """
    nth: int = 0
    """Only the n-th request (from 1) that fits verbs and resources; 0 means any."""
    times: int = 0
    """So often at most; 0 means without limit."""
    since: float = 0.0
    until: float = inf

    @property
    def label(self) -> str:
        """What the fault is called in ``FaultPlan.struck``."""
        return type(self).__name__


class Refuse(FaultRule, frozen=True):
    """The server answers with an error, and does nothing (or, with ``is_done``, has done it all the same)."""

    code: int
    reason: str = ""
    """Reason of the Status; default the usual one of the code."""
    message: str = "a fault of the plan"
    retry_after: int = 0
    """Seconds in ``Retry-After``; 0 leaves the header out."""
    is_done: bool = False
    """The server has done what it was asked; only its answer says otherwise."""

    @property
    def label(self) -> str:
        """The code."""
        return str(self.code)


class RefuseConnection(FaultRule, frozen=True):
    """The connection is refused: nothing is sent."""


class LoseAnswer(FaultRule, frozen=True):
    """The server does it, and the answer is lost on its way back."""


class Break(FaultRule, frozen=True):
    """The server does it, and then the line breaks: from here on it is cut without a sound."""


class Latency(FaultRule, frozen=True):
    """The request takes longer by this time."""

    seconds: Span


class CutWatch(FaultRule, frozen=True):
    """The stream ends after this time, as if the server had closed it; events in flight are lost."""

    after: Span


class WatchError(FaultRule, frozen=True):
    """The stream ends after this time with an ``ERROR`` event."""

    code: int
    after: Span
    retry_after: int = 0
    """Seconds that the error asks to wait; 0 leaves them out."""

    @property
    def label(self) -> str:
        """The code, marked as one of a watch."""
        return f"watch {self.code}"


class SilenceWatch(FaultRule, frozen=True):
    """After this time nothing arrives any more, not even the end: a dead connection nobody noticed."""

    after: Span


class _EventRule(FaultRule, frozen=True, kw_only=True):
    """What strikes single events of a watch."""

    types: frozenset[str] = frozenset()
    """Only events of these types (``ADDED``, ``BOOKMARK`` …); none means all."""


class RepeatEvents(_EventRule, frozen=True):
    """Each event of a watch arrives twice, with the chance of ``rate``."""


class LoseEvents(_EventRule, frozen=True):
    """Events of a watch never arrive, with the chance of ``rate``, and the stream goes on."""


class DelayEvents(_EventRule, frozen=True):
    """The events of a watch arrive later by this time, in their order."""

    seconds: Span


RequestFault: TypeAlias = Refuse | RefuseConnection | LoseAnswer | Break
WatchEnd: TypeAlias = CutWatch | WatchError | SilenceWatch
_REQUEST: Final = (Refuse, RefuseConnection, LoseAnswer, Break)
_END: Final = (CutWatch, WatchError, SilenceWatch)
_EVENT: Final = (RepeatEvents, LoseEvents, DelayEvents)


class FaultPlan:
    """Decides, from a seed, what goes wrong. One plan serves one link; two would disturb its dice."""

    def __init__(self, seed: int = 0, *rules: FaultRule) -> None:
        self._rules: Final = list(rules)
        self.struck: Final[Counter[str]] = Counter()
        """How often each fault has struck, by its label."""
        self._dice: Final = random.Random(seed)  # noqa: S311  faults, no secret
        self._seen: Final[Counter[int]] = Counter()
        self._used: Final[Counter[int]] = Counter()
        self._started: float | None = None

    @property
    def rules(self) -> tuple[FaultRule, ...]:
        """The rules that are in force, in order."""
        return tuple(self._rules)

    def add(self, *rules: FaultRule) -> None:
        """Let further rules count from now on, after those that are there."""
        self._rules.extend(rules)

    @classmethod
    def storm(cls, seed: int) -> "FaultPlan":
        """Everything that ordinary bad days bring, at rates that leave room for work."""
        return cls(
            seed,
            Refuse(429, retry_after=1, rate=0.05),
            Refuse(409, message="the object has been modified", rate=0.1, verbs=WRITES),
            Refuse(500, rate=0.03),
            RefuseConnection(rate=0.03, verbs=READS),
            LoseAnswer(rate=0.03, verbs=WRITES),
            Latency((0.0, 0.05), rate=0.3),
            CutWatch((0.5, 1.5)),
            WatchError(410, (0.3, 3.0), rate=0.3),
            RepeatEvents(rate=0.05),
        )

    def delay(self, target: RequestTarget, now: float) -> float:
        """Seconds to hold a request back. Ask this first, then ``fault``."""
        return sum(self._draw(rule.seconds) for rule in self._strikes(target, now, Latency))

    def fault(self, target: RequestTarget, now: float) -> RequestFault | None:
        """What happens to a request; ``None`` lets it pass."""
        return next(self._strikes(target, now, *_REQUEST), None)

    def watch_end(self, target: RequestTarget, now: float) -> tuple[float, WatchEnd] | None:
        """When (seconds from now) and how a watch ends that is opened now; ``None`` by itself."""
        ends = [(self._draw(rule.after), rule) for rule in self._strikes(target, now, *_END, count=False)]
        return min(ends, key=lambda end: end[0], default=None)

    def ended(self, rule: WatchEnd) -> None:
        """A watch ended as ``watch_end`` had said."""
        self.struck[rule.label] += 1

    def event_delay(self, target: RequestTarget, type: str, now: float) -> float:
        """Seconds by which the next event of a watch is late."""
        return sum(self._draw(rule.seconds) for rule in self._strikes(target, now, DelayEvents, event=type))

    def copies(self, target: RequestTarget, type: str, now: float) -> int:
        """How often the next event of a watch arrives."""
        if next(self._strikes(target, now, LoseEvents, event=type), None) is not None:
            return 0
        return 2 if next(self._strikes(target, now, RepeatEvents, event=type), None) is not None else 1

    @property
    def touches_events(self) -> bool:
        """Whether single events are looked at."""
        return any(isinstance(rule, _EVENT) for rule in self._rules)

    def _strikes(
        self, target: RequestTarget, now: float, *kinds: type[FaultRule], count: bool = True, event: str = ""
    ) -> Iterator[Any]:
        if self._started is None:
            self._started = now
        age = now - self._started
        for place, rule in enumerate(self._rules):
            if not isinstance(rule, kinds):
                continue
            if isinstance(rule, _EVENT) and rule.types and event not in rule.types:
                continue
            if self._does_strike(place, rule, target, age):
                if count:
                    self.struck[rule.label] += 1
                yield rule

    def _does_strike(self, place: int, rule: FaultRule, target: RequestTarget, age: float) -> bool:
        if rule.verbs and target.verb not in rule.verbs:
            return False
        if rule.resources and target.resource not in rule.resources:
            return False
        if rule.subresource is not None and target.subresource != rule.subresource:
            return False
        if rule.parameter and rule.parameter not in target.parameters:
            return False
        self._seen[place] += 1
        if rule.nth and self._seen[place] != rule.nth:
            return False
        if rule.times and self._used[place] >= rule.times:
            return False
        # The dice are thrown whether or not the time is right, so that a moved window moves nothing else.
        strikes = self._dice.random() < rule.rate
        if not strikes or not rule.since <= age < rule.until:
            return False
        self._used[place] += 1
        return True

    def _draw(self, span: Span) -> float:
        return self._dice.uniform(*span)
