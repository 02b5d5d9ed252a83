"""Jobs as kube-controller-manager runs them, and as ours do: the same stories, the same end.

See ``storybook`` for how they are told, and recorded.
"""

from __future__ import annotations

import pytest

from .jobstory import story as book
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


@pytest.fixture(scope="module")
def ours_there() -> Records:
    return book.ours_there()


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


@pytest.mark.kube
@pytest.mark.parametrize("name", book.stories)
def test_our_controllers_do_the_same_on_kube_apiserver(
    ours_there: Records, recorded: Records, name: str
) -> None:
    assert ours_there[name] == recorded[name]
