"""Telling a story: step by step on a cluster, with what a user would see."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from quarterdeck.cli.error import CommandError

from .script import Expectation, Finding, Step, Story, filled_in, value_at

if TYPE_CHECKING:
    from .command import Kubectl

PERIOD: Final = 0.25
"""Seconds between two looks at what a step waits for."""
_WIDTH: Final = 100


class Teller:
    """Takes a cluster through a story."""

    def __init__(self, kubectl: Kubectl, *, patience: float = 60.0) -> None:
        """``patience``: seconds for a step to come to its end."""
        self._kubectl: Final = kubectl
        self._patience: Final = patience
        self._found: Final[dict[str, str]] = {}

    async def tell(self, story: Story) -> AsyncIterator[str]:
        """Do every step; yields what a user would read, and raises CommandError if a step has no end."""
        for number, step in enumerate(story.steps, 1):
            async for text in self.take(step):
                yield f"\n{number}. {text}" if text == step.title else text

    async def take(self, step: Step) -> AsyncIterator[str]:
        """Do one step."""
        yield step.title
        for name, finding in step.let.items():
            await self._until(step, partial(self._find, name, finding))
        yield textwrap.fill(self._text(step.why), _WIDTH)
        for line in step.run:
            command = self._text(line)
            yield f"\n$ {command}\n{textwrap.indent(await self._kubectl.run(command), '  ')}"
        await self._until(step, partial(self._missing, step))
        for line in step.show:
            command = self._text(line)
            yield f"\n$ {command}\n{(await self._kubectl.run(command)).rstrip()}"

    def _text(self, text: str) -> str:
        return filled_in(text, self._found)

    async def _until(self, step: Step, missing: Callable[[], Awaitable[str]]) -> None:
        """Wait until nothing is missing; raises CommandError if something still is in the end."""
        deadline = asyncio.get_running_loop().time() + self._patience
        while text := await missing():
            if asyncio.get_running_loop().time() > deadline:
                raise CommandError(f"{step.title}: after {self._patience:g} seconds {text}")
            await asyncio.sleep(PERIOD)

    async def _find(self, name: str, finding: Finding) -> str:
        objects = await self._kubectl.get(self._text(finding.get))
        values = [value_at(each.to_dict(), finding.field) for each in objects]
        self._found[name] = next(filter(None, values), "")
        return "" if self._found[name] else f"no {finding.get} has {finding.field}"

    async def _missing(self, step: Step) -> str:
        """What is not as it should be yet; empty if all is."""
        for each in step.until:
            wanted = self._expectation(each)
            objects = await self._kubectl.get(wanted.get)
            count = sum(wanted.fits(obj.to_dict()) for obj in objects)
            if count != wanted.count:
                such = f" with {_words(wanted.where)}" if wanted.where else ""
                return f"there are {count} of {wanted.count} {wanted.get}{such}"
        return ""

    def _expectation(self, each: Expectation) -> Expectation:
        where = {path: self._text(value) for path, value in each.where.items()}
        return Expectation(self._text(each.get), each.count, where)


def _words(where: Mapping[str, str]) -> str:
    return ", ".join(f"{path}={value}" for path, value in where.items())
