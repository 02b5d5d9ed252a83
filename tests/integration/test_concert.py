"""The five operators together: the story that `quarterdeck demo` tells, on virtual time."""

from __future__ import annotations

import pytest

from quarterdeck.cli.story.telling import Teller

from .concertkit import NAMES, PATIENCE, concert

pytestmark = pytest.mark.virtual_time


async def test_the_story_comes_to_its_end_and_everything_holds_at_every_step() -> None:
    async with concert() as world:
        programs = [world.program(name) for name in NAMES]
        async with world.cluster.serving(*(each.manager for each in programs)):
            teller = Teller(world.kubectl, patience=PATIENCE)
            for step in world.story.steps:
                told = [text async for text in teller.take(step)]
                assert len(told) == 2 + len(step.run) + len(step.show)
                assert await world.broken() == []
