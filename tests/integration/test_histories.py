"""Random histories that were told to the real kube-apiserver, told to ours: both say the same.

`make histories ARGS=--record` makes the recording; `ARGS=--replay` prints every difference of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from histories import recording
from histories.recording import Recorded
from histories.replay import replay
from tests.harness.hook import HookServer

_PARTS = 4
pytestmark = pytest.mark.real_time  # webhooks are called over sockets


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    server = HookServer()
    yield server
    server.close()


async def _differing(histories: Iterable[Recorded], hooks: HookServer) -> list[str]:
    return [
        "\n".join([f"history {each.name}, step {step}", *lines])
        for each, verdict in await replay(histories, hooks)
        for step, lines in verdict.differing.items()
    ]


def _expect_none(differing: list[str]) -> None:
    if differing:
        pytest.fail("\n\n".join(differing), pytrace=False)


@pytest.mark.parametrize("part", range(_PARTS))
async def test_what_the_real_server_answered_to_a_history_is_what_ours_answers(
    part: int, hooks: HookServer
) -> None:
    histories = list(islice(recording.load(), part, None, _PARTS))
    assert histories, "the recording is empty"
    _expect_none(await _differing(histories, hooks))


async def test_histories_that_once_differed_do_so_no_more(hooks: HookServer) -> None:
    _expect_none(await _differing(recording.load_cases(), hooks))
