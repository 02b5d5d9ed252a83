"""The health of a cluster: a list of problems, from what was seen of its objects and how well that was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from .field import moment, plural
from .kind import KINDS
from .problem import SEVERITIES, Finding, Problem, Severity, Subject
from .relation import World, relations
from .situation import SITUATIONS

_PATIENCE: Final = 10.0
"""Seconds in which a watch may be away: a connection ends now and then."""
_SHOWN_FIRST: Final = {severity: place for place, severity in enumerate(SEVERITIES)}
_BLINDING: Final = ("api-unreachable", "credentials-refused")
"""With these nothing else is sure, so they come first."""
_TOLD_BY_GANG: Final = ("waits", "pod-unseen")
_TOLD_BY_SIZE: Final = ("waits", "gang-waits", "pod-unseen")


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """How well one kind is seen."""

    state: str = "ready"
    """``ready``, ``loading``, ``absent`` (not installed), ``refused``, ``unauthorized`` or ``stale``."""
    message: str = ""
    since: str = ""


class Observer(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever looks knows of looking."""

    sights: Mapping[str, Sight] = {}
    """By resource; a kind that is not named is seen well."""
    unreachable_since: str = ""
    server: str = "the API server"


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """All problems, the worst first."""

    problems: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    """Kinds that were not read yet."""

    def count(self, severity: Severity) -> int:
        """How many problems are so bad."""
        return sum(each.severity == severity for each in self.problems)

    @property
    def is_bad(self) -> bool:
        """Whether something should be done."""
        return any(each.severity != "notice" for each in self.problems)

    @property
    def summary(self) -> str:
        """One line. That all is well is said only if everything was seen."""
        counts = [f"{self.count(each)} {each}" for each in SEVERITIES[:2] if self.count(each)]
        if notices := self.count("notice"):
            counts.append(plural(notices, "notice"))
        if self.unknown:
            counts.append(f"{plural(len(self.unknown), 'kind')} not read yet")
        return ", ".join(counts) or "nothing is wrong"


def assess(world: World, observer: Observer, now: datetime) -> Assessment:
    """What is wrong at a moment."""
    found = [finding for seen in world.values() for each in seen.values() for finding in each.findings]
    found += relations(world)
    timely = [each for each in _without_echoes(found, world) if _is_timely(each, now)]
    unknown = sorted(name for name, sight in observer.sights.items() if sight.state == "loading")
    return Assessment(problems=tuple(_grouped([*_seeing(observer, now), *timely])), unknown=tuple(unknown))


def _is_timely(finding: Finding, now: datetime) -> bool:
    since = moment(finding.since)
    if since is None:
        return True
    age = (now - since).total_seconds()
    return finding.after <= age < finding.until


def _without_echoes(found: Iterable[Finding], world: World) -> list[Finding]:
    """Each trouble once: a gang's is not repeated by its pods, nor by what follows from a worse one."""
    found = list(found)
    missing_queue = {_place(each) for each in found if each.situation == "queue-missing"}
    too_large = {_place(each) for each in found if each.situation == "no-node-fits"}
    told = {
        _place(each) for each in found if each.subject.kind == "PodGroup" and each.situation != "gang-evicted"
    }
    gangs = {
        f"{each.facts.namespace}/{each.facts.name}": each.facts.gang
        for each in world.get("pods", {}).values()
        if each.facts is not None and told
    }
    queueless: set[tuple[str, str]] = set()
    kept = []
    for each in found:
        place = _place(each)
        gang = ("PodGroup", gangs.get(place[1], "")) if each.subject.kind == "Pod" else place
        if each.situation == "queue-missing":
            is_echo = place in queueless  # the scheduler says it, and so does the list of queues
            queueless.add(place)
        else:
            is_echo = (
                (each.situation.startswith("gang-") and place in missing_queue)
                or (each.situation.startswith(_TOLD_BY_SIZE) and place in too_large)
                or (each.situation.startswith(_TOLD_BY_GANG) and gang in told)
            )
        if not is_echo:
            kept.append(each)
    return kept


def _place(finding: Finding) -> tuple[str, str]:
    return finding.subject.kind, f"{finding.subject.namespace}/{finding.subject.name}"


def _grouped(found: Iterable[Finding]) -> list[Problem]:
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in found:
        groups[each.situation, each.reason].append(each)
    problems = [_problem(each) for each in groups.values()]
    return sorted(problems, key=_urgency)


def _urgency(problem: Problem) -> tuple[bool, int, int, str, str]:
    place = _SHOWN_FIRST[problem.severity]
    return problem.situation not in _BLINDING, place, -len(problem.subjects), problem.since, problem.key


def _problem(found: list[Finding]) -> Problem:
    first = found[0]
    situation = SITUATIONS[first.situation]
    subjects = sorted(
        {each.subject for each in found}, key=lambda each: (each.kind, each.namespace, each.name)
    )
    return Problem(
        situation=first.situation,
        severity=situation.severity,
        reason=first.reason,
        subjects=tuple(subjects),
        since=min((each.since for each in found if each.since and each.is_dated), default=""),
        remedy=situation.remedy.format(
            object=_for_kubectl(subjects[0]),
            name=subjects[0].name,
            namespace=subjects[0].namespace,
            about=first.about,
        ),
    )


def _for_kubectl(subject: Subject) -> str:
    resource = f"{subject.kind.lower()}/{subject.name}"
    return f"{resource} -n {subject.namespace}" if subject.namespace else resource


def _seeing(observer: Observer, now: datetime) -> Iterable[Finding]:
    """What is wrong with looking: then the rest may be worse than it seems."""
    server = Subject(kind="APIServer", name=observer.server)
    if observer.unreachable_since:
        text = "it does not answer; what is shown is how things were before"
        yield Finding(
            situation="api-unreachable", subject=server, reason=text, since=observer.unreachable_since
        )
    patience = now.astimezone(UTC) - timedelta(seconds=_PATIENCE)
    for name, sight in sorted(observer.sights.items()):
        kind = Subject(kind="Resource", name=name)
        if sight.state == "unauthorized":
            yield Finding(
                situation="credentials-refused",
                subject=server,
                reason="it does not accept the credentials",
                since=sight.since,
            )
        elif sight.state == "refused":
            yield Finding(
                situation="may-not-read",
                subject=kind,
                reason="may not be read, so nothing is known of it",
                about=name,
            )
        elif sight.state == "stale" and not observer.unreachable_since:
            since = moment(sight.since)
            if since is None or since <= patience:
                text = "is no longer followed; what is shown of it is old"
                yield Finding(situation="data-stale", subject=kind, reason=text, since=sight.since)
    yield from _incomplete(observer)


def _incomplete(observer: Observer) -> Iterable[Finding]:
    """Operators of which some kinds are installed and others are not."""
    absent = {name for name, sight in observer.sights.items() if sight.state == "absent"}
    by_operator: dict[str, list[str]] = defaultdict(list)
    for each in KINDS:
        if each.operator:
            by_operator[each.operator].append(each.name)
    for operator, names in by_operator.items():
        missing = [name for name in names if name in absent]
        if missing and len(missing) < len(names):
            for name in missing:
                text = f"is not installed, and other kinds of operator {operator} are"
                yield Finding(
                    situation="definition-missing", subject=Subject(kind="Resource", name=name), reason=text
                )
