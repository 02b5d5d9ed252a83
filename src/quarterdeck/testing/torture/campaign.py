"""Everything together: learn what happens undisturbed, disturb it, confirm and shrink what is found."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from time import monotonic
from typing import Final, TypeAlias

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.testing import clock
from quarterdeck.testing.torture import oracle
from quarterdeck.testing.torture.finding import Finding, Problem, make_finding, signature
from quarterdeck.testing.torture.perturbation import PATTERNS, Seed
from quarterdeck.testing.torture.plan import seeds_of
from quarterdeck.testing.torture.reference import Outcome, Reference, learn_reference
from quarterdeck.testing.torture.report import Report
from quarterdeck.testing.torture.run import Run
from quarterdeck.testing.torture.scene import Scene
from quarterdeck.testing.torture.shrink import without_an_edit, without_the_rest
from quarterdeck.testing.torture.workload import Workload

_WORK_LIMIT: Final = 60.0
"""CPU seconds of a run on virtual time; what takes longer does not come to rest."""

_TO_CLEAN_UP: Final = 5.0
"""Seconds of the budget in which the last cluster is taken down."""

Progress: TypeAlias = Callable[[Report, str], None]
"""Called with what is known so far and what is being done."""


class TortureError(QuarterdeckError):
    """The operator could not be tried at all."""


class Campaign:
    """Runs of one operator with one workload."""

    def __init__(
        self,
        scene: Scene,
        workload: Workload,
        *,
        budget: float = 600.0,
        seed: int = 0,
        patterns: Collection[str] = PATTERNS.keys(),
        most_runs: int = 0,
        jobs: int = 1,
        stops_at_first: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """``budget`` is in seconds of the wall; ``most_runs`` 0 means without limit.

        With ``stops_at_first`` it ends when something was found for certain.
        """
        self._scene: Final = scene
        self._workload: Final = workload
        self._deadline: Final = monotonic() + max(budget - _TO_CLEAN_UP, budget / 2)
        self._began: Final = monotonic()
        self._seed: Final = seed
        self._patterns: Final = patterns
        self._most_runs: Final = most_runs
        self._jobs: Final = jobs
        self._stops_at_first: Final = stops_at_first
        self._tell: Final = progress if progress is not None else lambda report, doing: None
        self._report: Final = Report(steps=tuple(each.label for each in workload.steps))
        self._seen: Final[Counter[tuple[str, ...]]] = Counter()
        self._found: Final[dict[tuple[str, ...], Finding | None]] = {}
        """By signature; None for what shows without disturbance, too."""

    async def run(self) -> Report:
        """Everything, until there is nothing left to try or no time; raises ``TortureError`` at the start."""
        try:
            async with asyncio.timeout(self._deadline - monotonic()):
                reference = await self._learn()
                if reference is not None:
                    await self._disturb(reference)
                    self._report.is_complete = self._report.runs >= self._report.planned
        except TimeoutError:
            pass
        self._report.seconds = monotonic() - self._began
        return self._report

    async def replay(self, seed: Seed) -> Report:
        """One run again, with the undisturbed ones that it is compared with."""
        reference = await self._learn()
        if reference is not None and seed.perturbations:
            self._report.planned = self._report.runs = 1
            outcome = await self._try(seed, reference)
            for problem in outcome.problems[:1]:
                self._note(seed, problem, outcome)
        self._report.is_complete = True
        self._report.seconds = monotonic() - self._began
        return self._report

    async def _learn(self) -> Reference | None:
        """Two undisturbed runs; what is wrong in them already is found, and then nothing else can be."""
        self._tell(self._report, "two undisturbed runs")
        runs = [Run(self._scene, self._workload, Seed()) for _ in range(2)]
        if self._jobs > 1:
            outcomes = list(await asyncio.gather(*map(self._play, runs)))
        else:
            outcomes = [await self._play(each) for each in runs]
        one, other = outcomes
        self._check_start(one)
        is_whole = all(len(each.states) == len(self._workload.steps) for each in outcomes)
        for problem in [*one.problems, *self._orphans(one)]:
            if signature(problem) in map(signature, [*other.problems, *self._orphans(other)]):
                self._note(Seed(), problem, one)
        if not is_whole:
            if not self._report.findings:
                text = "; ".join(each.sentence for outcome in outcomes for each in outcome.problems[:1])
                raise TortureError(f"two undisturbed runs do not agree: {text}")
            return None
        reference = learn_reference(one, other)
        self._report.writes = len(reference.writes)
        self._report.watched = reference.watched
        return reference

    def _note(self, seed: Seed, problem: Problem, outcome: Outcome) -> None:
        self._seen[signature(problem)] += 1
        self._found[signature(problem)] = self._finding(seed, problem, outcome, is_certain=True)
        self._update()

    def _check_start(self, outcome: Outcome) -> None:
        first = next(iter(outcome.problems), None)
        if (
            first is not None
            and first.step <= 0
            and first.oracle in ("refusal", "crash")
            and not outcome.writes
        ):
            raise TortureError(f"the operator cannot be tried: {first.sentence}\n{outcome.log}".rstrip())
        if not outcome.writes:
            raise TortureError(
                "the operator has written nothing: does it use KUBECONFIG, and is the sample its kind?"
                f"\n{outcome.log}".rstrip()
            )

    def _orphans(self, outcome: Outcome) -> list[Problem]:
        steps = self._workload.steps
        if len(outcome.states) < len(steps) or steps[-1].verb != "delete":
            return []
        label, last = steps[-1].label, outcome.states[-1]
        return oracle.orphans(len(steps) - 1, label, last, outcome.own, self._scene.kept, outcome.baseline)

    async def _disturb(self, reference: Reference) -> None:
        seeds = seeds_of(
            self._workload, reference, self._scene.changes, patterns=self._patterns, seed=self._seed
        )
        if self._most_runs:
            seeds = seeds[: self._most_runs]
        self._report.planned = len(seeds)
        queue = iter(seeds)

        async def work() -> None:
            for seed in queue:
                if self._stops_at_first and any(each.is_certain for each in self._report.findings):
                    return
                self._tell(self._report, str(seed))
                outcome = await self._try(seed, reference)
                self._report.runs += 1
                self._report.by_pattern[seed.pattern] = self._report.by_pattern.get(seed.pattern, 0) + 1
                if outcome.problems:
                    await self._examine(seed, outcome, reference)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._jobs):
                group.create_task(work())

    async def _try(self, seed: Seed, reference: Reference) -> Outcome:
        steps = seed.steps if seed.steps is not None else tuple(range(len(self._workload.steps)))
        run = Run(self._scene, self._workload.kept(steps), seed, reference.kept(steps))
        return await self._play(run)

    async def _play(self, run: Run) -> Outcome:
        if not self._scene.is_virtual:
            return await run.play()
        return await asyncio.to_thread(_play_virtually, run)

    async def _examine(self, seed: Seed, outcome: Outcome, reference: Reference) -> None:
        """Make a finding of the first problem of a run; if it is known already, it is counted."""
        problem = outcome.problems[0]
        which = signature(problem)
        self._seen[which] += 1
        if self._seen[which] == 1:
            self._found[which] = self._finding(seed, problem, outcome, is_certain=False)
            self._update()
            self._found[which] = await self._confirmed(seed, problem, outcome, reference)
        self._update()

    async def _confirmed(
        self, seed: Seed, problem: Problem, outcome: Outcome, reference: Reference
    ) -> Finding | None:
        """The finding of the shortest run that shows the same again; None if it shows without disturbance."""
        which = signature(problem)
        best, found = without_the_rest(seed, len(self._workload.steps), problem.step), None
        for candidate in (best, seed):
            best, found = candidate, await self._same(candidate, which, reference)
            if found is not None:
                break
        if found is None:
            return self._finding(seed, problem, outcome, is_certain=False)
        control = await self._same(Seed((), best.steps), which, reference)
        if control is not None:
            return None
        is_shorter = True
        while is_shorter:
            is_shorter = False
            for candidate in without_an_edit(best, self._workload):
                again = await self._same(candidate, which, reference)
                if again is not None:
                    best, found, is_shorter = candidate, again, True
                    break
        return self._finding(best, *found, is_certain=True)

    async def _same(
        self, seed: Seed, which: tuple[str, ...], reference: Reference
    ) -> tuple[Problem, Outcome] | None:
        """The same problem in another run, if it has it."""
        self._tell(self._report, f"again: {seed}")
        outcome = await self._try(seed, reference)
        found = next((each for each in outcome.problems if signature(each) == which), None)
        return None if found is None else (found, outcome)

    def _update(self) -> None:
        """Show in the report what is known by now."""
        self._report.findings = [
            msgspec.structs.replace(each, seen=self._seen[which])
            for which, each in self._found.items()
            if each is not None
        ]

    def _finding(self, seed: Seed, problem: Problem, outcome: Outcome, *, is_certain: bool) -> Finding:
        steps = seed.steps if seed.steps is not None else range(len(self._workload.steps))
        labels = tuple(self._workload.steps[place].label for place in steps)
        return make_finding(
            seed, problem, labels[: problem.step + 1], seen=1, is_certain=is_certain, log=outcome.log
        )


def _play_virtually(run: Run) -> Outcome:
    try:
        return clock.run(run.play(), work_limit=_WORK_LIMIT)
    except clock.Endless as error:
        return Outcome(problems=[Problem("settle", 0, str(error), (), ("endless",))])


def torture(
    scene: Scene,
    workload: Workload,
    *,
    budget: float = 600.0,
    seed: int = 0,
    patterns: Collection[str] = PATTERNS.keys(),
    most_runs: int = 0,
    stops_at_first: bool = False,
) -> Report:
    """Try an operator; see ``Campaign``. For pytest: it returns when everything was tried or time is up."""
    campaign = Campaign(
        scene,
        workload,
        budget=budget,
        seed=seed,
        patterns=patterns,
        most_runs=most_runs,
        stops_at_first=stops_at_first,
    )
    return asyncio.run(campaign.run())
