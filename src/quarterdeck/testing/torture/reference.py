"""What undisturbed runs have shown, which the others are compared with. Pure."""

from collections.abc import Sequence

import msgspec

from quarterdeck.testing.torture.finding import Problem
from quarterdeck.testing.torture.perturbation import WritePoint
from quarterdeck.testing.torture.picture import Expectation, StoredObject, learn, take_picture


class Write(msgspec.Struct, frozen=True):
    """One write of the operator."""

    step: int
    point: WritePoint
    key: str
    """Of the object: ``statefulsets.apps default/web``."""
    status: int

    @property
    def is_deletion(self) -> bool:
        """Whether it has deleted something."""
        return self.point.verb in ("delete", "deletecollection") and self.status < 300


class Outcome(msgspec.Struct):
    """What a run has shown."""

    states: list[list[StoredObject]] = []
    """At rest after each step."""
    baseline: frozenset[str] = frozenset()
    """The uids of what was there before."""
    program: frozenset[str] = frozenset()
    """Keys of what the operator makes for itself when it starts, before there is anything to work on."""
    writes: list[Write] = []
    watched: set[str] = set()
    seconds: list[float] = []
    problems: list[Problem] = []
    log: str = ""

    @property
    def own(self) -> frozenset[str]:
        """What the operator has written, without what it makes for itself."""
        return frozenset(each.key for each in self.writes if each.status < 300) - self.program


class Reference(msgspec.Struct, frozen=True):
    """What is known from undisturbed runs."""

    expectations: tuple[Expectation, ...]
    """After each step."""
    states: tuple[list[StoredObject], ...]
    """The objects behind them, of the first of these runs."""
    own: frozenset[str]
    """Keys of what is looked into."""
    program: frozenset[str]
    """Keys of what it makes for itself, whoever its objects are."""
    writes: tuple[Write, ...]
    watched: tuple[str, ...]
    seconds: tuple[float, ...]
    """How long each step took."""

    def kept(self, places: Sequence[int]) -> "Reference":
        """As if only these steps of the workload had been done."""
        return Reference(
            tuple(self.expectations[place] for place in places),
            tuple(self.states[place] for place in places),
            self.own,
            self.program,
            tuple(each for each in self.writes if each.step in places),
            self.watched,
            tuple(self.seconds[place] for place in places),
        )


def learn_reference(one: Outcome, other: Outcome) -> Reference:
    """What two undisturbed runs of a whole workload have in common."""
    program = one.program | other.program
    own = (one.own | other.own) - program
    pairs = zip(one.states, other.states, strict=True)
    expectations = tuple(
        learn(
            take_picture(left, own, one.baseline, program), take_picture(right, own, other.baseline, program)
        )
        for left, right in pairs
    )
    states = [
        [each for each in state if each.uid not in one.baseline and each.key not in program]
        for state in one.states
    ]
    writes = tuple(each for each in one.writes if each.step >= 0)
    seconds = tuple(max(pair) for pair in zip(one.seconds, other.seconds, strict=True))
    watched = tuple(sorted(one.watched | other.watched))
    return Reference(expectations, tuple(states), own, program, writes, watched, seconds)
