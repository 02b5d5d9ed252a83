"""What torture found: problems of a run, and findings made of them. Pure."""

import re
from typing import Final

import msgspec

from quarterdeck.testing.torture.perturbation import PATTERNS, Perturbation, Seed
from quarterdeck.testing.torture.picture import Difference

ORACLES: Final = {
    "state": "the end state is not that of a run in which nothing went wrong",
    "settle": "it does not come to rest",
    "orphan": "something was left behind after the deletion",
    "foreign": "something was touched that belongs to somebody else",
    "crash": "the process ended by itself",
    "status": "the status does not tell the truth",
    "refusal": "the API refused a step, or took what it must refuse",
}
"""What is judged, without a specification of the operator."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong in one run."""

    oracle: str
    step: int
    """The step of the workload after which it was seen."""
    sentence: str
    diff: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """Where, without names of chance: what makes two problems the same."""

    @classmethod
    def of_state(
        cls, step: int, label: str, differences: list[Difference], oracle: str = "state"
    ) -> "Problem":
        """An end state that is not as expected."""
        first = differences[0]
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        return cls(
            oracle,
            step,
            f"after “{label}” {first}{more}",
            tuple(str(each) for each in differences),
            tuple(
                f"{each.key.split(' ')[0]}:{re.sub(r'[0-9]+', '#', each.path)}" for each in differences[:3]
            ),
        )


class Finding(msgspec.Struct, frozen=True):
    """A problem that comes back when its seed is replayed."""

    seed: str
    pattern: str
    oracle: str
    sentence: str
    steps: tuple[str, ...]
    """What was done, in order: the shortest sequence that was found."""
    diff: tuple[str, ...]
    seen: int
    """Runs in which the same came out, this one included."""
    is_certain: bool
    """Whether it came out again when it was repeated."""
    log: str = ""
    """The last lines of the operator's output."""


def signature(problem: Problem) -> tuple[str, ...]:
    """What two runs have in common that found the same."""
    return (problem.oracle, *problem.places)


def make_finding(
    seed: Seed, problem: Problem, labels: tuple[str, ...], *, seen: int, is_certain: bool, log: str
) -> Finding:
    """A finding, told in a sentence that says what was done and what came of it."""
    done = "; ".join(_told(each) for each in seed.perturbations) or PATTERNS["undisturbed"]
    sentence = f"{ORACLES[problem.oracle]}: {done}; {problem.sentence}"
    return Finding(
        str(seed), seed.pattern, problem.oracle, sentence, labels, problem.diff, seen, is_certain, log
    )


def _told(each: Perturbation) -> str:
    text = PATTERNS[each.pattern]
    details = [each.what] if each.what else []
    if each.point is not None:
        nth = each.point.nth
        details.append(f"{each.point.verb} {each.point.resource}{f', time {nth}' if nth > 1 else ''}")
    elif each.step >= 0:
        details.append(f"after step {each.step}")
    return f"{text} ({', '.join(details)})" if details else text
