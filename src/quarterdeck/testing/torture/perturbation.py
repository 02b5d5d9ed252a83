"""What is done to an operator in one run, as a value with a text form: the seed of a finding. Pure.

The text says everything, so that a run can be repeated on another machine and after other runs::

    kill@create,statefulsets.apps,1         killed after the first time it created a StatefulSet
    refuse:409@update,widgets.example.com/status,2
    stale:0@2                               restarted after step 2, shown the world after step 0

Several are joined by ``+``. ``~0,3`` behind them keeps only those steps of the workload.
"""

from typing import Final

import msgspec

from quarterdeck.errors import ConfigError

PATTERNS: Final = {
    "undisturbed": "nothing was done to it: the operator alone, on a healthy cluster",
    "kill": "the process was killed when a write was stored and its answer not yet there, and started again",
    "refuse": "one write was refused with an error, and nothing was stored",
    "lose": "one write was stored, but its answer was an error",
    "cut": "all watches ended after a write, and the server had forgotten where they were (410)",
    "hold": "news of one kind came late, after everything else had come to rest",
    "miss": "changes of one kind were never seen one by one: the next look showed only the latest state",
    "stale": "the process was restarted and reached a server that lags behind: it saw an old world first",
    "pause": "the process stood still, longer than its lease, while the world went on",
    "recreate": "the object was deleted and created again under its name, before the operator saw either",
    "delete-child": "somebody deleted an object that the operator had made",
    "edit-child": "somebody edited an object that the operator had made",
    "occupy": "an object that another controller owns had the name of a child already",
    "neighbour": "a second object of the kind lived beside the first one",
    "starve": "no node took pods for a while",
    "block": "the server refused all writes to one kind for a while",
    "field": "a field was changed to another valid value, and back",
    "invalid": "a field was given a value that the schema forbids",
}
"""Every pattern and what it means; the words stand in findings and in the documentation."""


class WritePoint(msgspec.Struct, frozen=True):
    """A moment of a run: the n-th time (from 1) that the operator makes this kind of write."""

    verb: str
    resource: str
    """``statefulsets.apps``, or with a subresource ``widgets.example.com/status``."""
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.verb},{self.resource},{self.nth}"


class Perturbation(msgspec.Struct, frozen=True):
    """One thing that goes wrong."""

    pattern: str
    what: str = ""
    """An error's code, a resource, an object, an earlier step: the pattern says which."""
    point: WritePoint | None = None
    """After this write …"""
    step: int = -1
    """… or when this step has come to rest."""

    def __str__(self) -> str:
        where = f"@{self.point}" if self.point is not None else f"@{self.step}" if self.step >= 0 else ""
        return f"{self.pattern}{f':{self.what}' if self.what else ''}{where}"

    @classmethod
    def parse(cls, text: str) -> "Perturbation":
        """Raises ``ConfigError`` for what ``str`` has not made."""
        name, _, where = text.partition("@")
        pattern, _, what = name.partition(":")
        if pattern not in PATTERNS:
            raise ConfigError(f"{text!r} names no pattern: {', '.join(PATTERNS)}")
        if where.isdecimal():
            return cls(pattern, what, None, int(where))
        if not where:
            return cls(pattern, what)
        verb, resource, nth = (*where.split(","), "", "")[:3]
        if not resource or not nth.isdecimal():
            raise ConfigError(f"{text!r} names no moment: VERB,RESOURCE,NTH or the number of a step")
        return cls(pattern, what, WritePoint(verb, resource, int(nth)))


class Seed(msgspec.Struct, frozen=True):
    """Everything that makes a run what it is."""

    perturbations: tuple[Perturbation, ...] = ()
    steps: tuple[int, ...] | None = None
    """The steps of the workload that are done; ``None`` for all."""

    @property
    def pattern(self) -> str:
        """The pattern of the first perturbation."""
        return self.perturbations[0].pattern if self.perturbations else "undisturbed"

    def __str__(self) -> str:
        text = "+".join(str(each) for each in self.perturbations) or "undisturbed"
        return text if self.steps is None else f"{text}~{','.join(map(str, self.steps))}"

    @classmethod
    def parse(cls, text: str) -> "Seed":
        """Raises ``ConfigError`` for what ``str`` has not made."""
        names, tilde, kept = text.partition("~")
        parts = [Perturbation.parse(each) for each in names.split("+") if each not in ("", "undisturbed")]
        if tilde and not all(each.isdecimal() for each in kept.split(",")):
            raise ConfigError(f"{text!r}: behind ~ stand the numbers of steps, separated by commas")
        return cls(tuple(parts), tuple(int(each) for each in kept.split(",")) if tilde else None)
