"""What the kinds of grove cases share.

Cases about admission run on the server under test; all others on an embedded server in this process, on
virtual time, because they wait for minutes. All cases use the same names, so they run one after the other.
"""

from __future__ import annotations

from typing import Any, Final

from tests.harness.case import Case, CaseFailure
from tests.harness.run import Run

from .stage import Stage, stage_of
from .world import World

__all__ = ["GroveKind", "Json", "Lines"]

Json = dict[str, Any]
Lines = list[str]

_LANE: Final = "grove"


class GroveKind:
    """What the kinds share: one lane, a clean server, and no word that is not understood."""

    given_keys: frozenset[str] = frozenset({"config", "objects"})
    when_keys: frozenset[str] = frozenset()
    then_keys: frozenset[str] = frozenset()
    is_private = True
    """Runs on the embedded server whatever the server under test is."""

    def lane(self, case: Case) -> str:
        return _LANE

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        stage = stage_of(run, is_private=self.is_private)
        stage.play(self._play(case, stage))

    def refuse_unknown(self, case: Case) -> None:
        """Fail on words that nobody looks at."""
        unknown = [f"given.{key}" for key in case.given.keys() - self.given_keys]
        unknown += [f"when.{key}" for key in case.when.keys() - self.when_keys]
        unknown += [f"then.{key}" for key in case.then.keys() - self.then_keys]
        if unknown:
            raise CaseFailure(*(f"{word} is not understood" for word in sorted(unknown)))

    async def _play(self, case: Case, stage: Stage) -> None:
        world = World(stage)
        try:
            lines = await self.check(case, stage, world)
        finally:
            await world.clear()
        if lines:
            raise CaseFailure(*lines)

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        """What does not hold."""
        raise NotImplementedError
