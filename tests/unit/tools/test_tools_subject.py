"""Commit messages: a subject that fits, and a body apart from it."""

import pytest

import subject


@pytest.mark.parametrize(
    "message",
    [
        "Say what is different now\n",
        "A" * 72,
        "Subject\n\nA body that says why.\n",
        "Subject\n# a comment of git\n",
    ],
)
def test_a_good_message_passes(message: str) -> None:
    assert subject.problems(message) == []


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "empty"),
        ("# only comments\n", "empty"),
        ("A" * 73, "at most 72"),
        ("A sentence.", "full stop"),
        ("Subject\nbody", "blank line"),
    ],
)
def test_a_bad_message_is_told_what_is_wrong(message: str, words: str) -> None:
    (problem,) = subject.problems(message)
    assert words in problem
