"""Histories told to the real server and to ours.

make histories ARGS="--seeds 100 [--first 1]"     compare; a difference is shrunk into tests/histories
make histories ARGS="--seeds 500 --record"        also keep the real server's answers for the tests
make histories ARGS="--replay"                    ours against what was recorded, without the real server
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.harness.hook import HookServer

from kube.server import is_built

from . import recording
from .compare import Verdict, compare, volatile_steps
from .generate import has_restart, history
from .recording import Recorded
from .replay import replay
from .shrink import shrink
from .side import Ours, Real, Side
from .tell import Observed, tell

Json = dict[str, Any]
_MOST_TRIES: Final = 60
#: what `make test` has time for; those with the greatest seeds are kept
_MOST_RECORDED: Final = 500
_ATTEMPTS = itertools.count(1)


class Run:
    """One run of the command: its counts and its recordings."""

    def __init__(self, real: Real, ours: Ours, hooks: HookServer, options: argparse.Namespace) -> None:
        self._real = real
        self._ours = ours
        self._hooks = hooks
        self._folder: Path = options.cases
        self._most_shrunk: int = options.shrink
        self.told = self.steps = self.volatile = 0
        self.differing: list[str] = []
        self.explained: Counter[str] = Counter()
        self.recorded: list[Recorded] = []

    async def seeds(self, seeds: Sequence[int], deadline: float, *, at_once: int) -> None:
        """Several at a time: the real server is mostly waited for."""
        waiting = iter(seeds)

        async def work() -> None:
            for seed in waiting:
                if time.monotonic() > deadline:
                    return
                await self.seed(seed)

        await asyncio.gather(*(work() for _ in range(at_once)))

    async def seed(self, seed: int) -> None:
        steps = history(seed)
        real = await self._tell(self._real, steps, seed)
        ours = await self._tell(self._ours, steps, seed)
        verdict, volatile = compare(steps, real, ours), list[int]()
        if verdict.differing:  # does the real server differ from itself?
            again = await self._tell(self._real, steps, seed)
            volatile = volatile_steps(steps, real, again)
            verdict = compare(steps, real, ours, volatile)
        self.told += 1
        if not self.told % 100:
            print(f"{self.told} histories, {len(self.differing)} differ", flush=True)
        self.steps += len(steps)
        self.volatile += len(volatile)
        self.explained += verdict.explained
        for number in volatile:
            print(f"seed {seed} step {number}: the real server differs from itself: {_gist(steps[number])}")
        if not verdict.differing:
            self.recorded.append(Recorded(str(seed), steps, real, volatile))
        else:
            _print(f"seed {seed}", steps, verdict)
            self.differing.append(str(seed))
            if len(self.differing) <= self._most_shrunk:
                await self._shrink(seed, steps, next(iter(verdict.differing)))

    async def _tell(self, side: Side, steps: list[Json], seed: int) -> Observed:
        return await tell(side, steps, f"h-{seed}-{next(_ATTEMPTS)}", self._hooks)

    async def _shrink(self, seed: int, steps: list[Json], differing: int) -> None:
        """The fewest steps after which the same one is still the first that differs."""
        found: Recorded | None = None

        async def differs(part: list[Json]) -> bool:
            nonlocal found
            real, ours = await asyncio.gather(
                self._tell(self._real, part, seed),
                self._tell(self._ours, part, seed),
            )
            if next(iter(compare(part, real, ours).differing), None) != differing:
                return False
            found = Recorded(f"seed-{seed}", part, real, [])
            return True

        whole = [step for step in steps if step["i"] <= differing]
        if await differs(whole):
            await shrink(whole, differs, most_tries=_MOST_TRIES)
        if found is not None:
            path = recording.save_case(found, self._folder)
            print(f"seed {seed}: {len(found.steps)} of {len(steps)} steps matter: {path}", flush=True)


def _print(name: str, steps: list[Json], verdict: Verdict) -> None:
    by_number = {step["i"]: step for step in steps}
    for number, lines in list(verdict.differing.items())[:3]:
        print(f"DIFF {name} step {number}: {_gist(by_number[number])}")
        for line in lines[:6]:
            print(f"   {line}")
    sys.stdout.flush()


def _gist(step: Json) -> str:
    parts = [
        step["op"],
        step.get("method"),
        step.get("path"),
        step.get("query"),
        step.get("type"),
        step.get("watch"),
    ]
    return " ".join(str(part) for part in parts if part is not None)[:200]


async def compared(options: argparse.Namespace, hooks: HookServer) -> int:
    started = time.monotonic()
    options.cases.mkdir(parents=True, exist_ok=True)
    async with Real() as real, Ours() as ours:
        run = Run(real, ours, hooks, options)
        seeds = range(options.first, options.first + options.seeds)
        restarted = {seed for seed in seeds if has_restart(history(seed))}
        minutes = options.minutes * 60
        calm = [seed for seed in seeds if seed not in restarted]
        await run.seeds(calm, started + minutes * 2 / 3, at_once=options.jobs)
        if options.record:
            _record(run)
        await run.seeds(sorted(restarted), started + minutes, at_once=1)
        if options.record:
            _record(run)
    seconds = time.monotonic() - started
    for reason, count in sorted(run.explained.items()):
        print(f"explained {count} times: {reason}")
    print(
        f"{run.told} histories, {run.steps} steps in {seconds:.0f} s: {len(run.differing)} differ,"
        f" {run.volatile} steps on which the real server differs from itself"
    )
    return 1 if run.differing else 0


def _record(run: Run) -> None:
    kept = {each.name: each for each in recording.load()} if recording.RECORDED.exists() else {}
    kept |= {each.name: each for each in run.recorded}
    newest = sorted(kept.values(), key=lambda each: int(each.name))[-_MOST_RECORDED:]
    recording.save(newest)
    size = recording.RECORDED.stat().st_size / 1024
    print(f"{recording.RECORDED.name} has {len(newest)} histories now, {size:.0f} KB", flush=True)


async def replayed(hooks: HookServer) -> int:
    started, cpu = time.monotonic(), time.process_time()
    verdicts = await replay([*recording.load_cases(), *recording.load()], hooks)
    differing = 0
    for each, verdict in verdicts:
        differing += bool(verdict.differing)
        _print(each.name, each.steps, verdict)
    print(
        f"{len(verdicts)} recorded histories in {time.monotonic() - started:.0f} s"
        f" ({time.process_time() - cpu:.0f} s of CPU): {differing} differ"
    )
    return 1 if differing else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many histories")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=16, help="how many at the same time")
    parser.add_argument("--minutes", type=float, default=60, help="begin no history after this long")
    parser.add_argument("--shrink", type=int, default=5, help="how many differences to make small; slow")
    parser.add_argument("--record", action="store_true", help="keep the real server's answers for the tests")
    parser.add_argument("--replay", action="store_true", help="ours against what was recorded")
    parser.add_argument("--cases", type=Path, default=recording.FOLDER, help="where shrunk histories go")
    options = parser.parse_args()
    if not options.replay and not is_built():
        print("comparing needs the real server (make kube); --replay does not", file=sys.stderr)
        return 1
    hooks = HookServer()
    try:
        return asyncio.run(replayed(hooks) if options.replay else compared(options, hooks))
    finally:
        hooks.close()


if __name__ == "__main__":
    sys.exit(main())
