"""Nodes, volumes, devices and so on as kube-controller-manager looks after them, and as ours do.

See ``storybook`` for how they are told, and recorded.
"""

from __future__ import annotations

import pytest

from .basestory import story as book
from .storybook import Records


@pytest.fixture(scope="module")
def ours() -> Records:
    return book.ours()


@pytest.fixture(scope="module")
def recorded() -> Records:
    return book.recorded()


@pytest.fixture(scope="module")
def theirs() -> Records:
    return book.theirs()


@pytest.mark.parametrize("name", book.stories)
def test_a_story_ends_as_it_was_recorded_with_kube_controller_manager(
    ours: Records, recorded: Records, name: str
) -> None:
    assert ours[name] == recorded[name]


@pytest.mark.kube
@pytest.mark.parametrize("name", book.stories)
def test_a_story_ends_as_it_does_with_kube_controller_manager(
    theirs: Records, recorded: Records, name: str
) -> None:
    assert theirs[name] == recorded[name]
