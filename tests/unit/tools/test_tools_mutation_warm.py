"""What a change to a file does to the functions that exist already."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from mutation.warm import Functions

FILE = "/mutation-warm/src/sample.py"
SOURCE = """
LIMIT = 3

def below(value, most=LIMIT):
    return value < most

def counter(step):
    def count(value):
        return value + step
    return count

by_one = counter(1)

class Box:
    size = 2
    def is_full(self, count):
        return count >= self.size
"""


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("freeze", "unfreeze"):  # what other tests of this process rely on
        monkeypatch.setattr(f"gc.{name}", lambda: None)
    made = ModuleType("sample")
    exec(compile(SOURCE, FILE, "exec"), made.__dict__)
    return made


def change(old: str, new: str) -> bool:
    assert old in SOURCE
    before, after = (compile(text, FILE, "exec") for text in (SOURCE, SOURCE.replace(old, new)))
    return Functions("/mutation-warm").replace(before, after)


@pytest.mark.parametrize(
    ("old", "new", "ask", "before", "after"),
    [
        ("value < most", "value <= most", lambda m: m.below(3), False, True),
        ("count >= self.size", "count > self.size", lambda m: m.Box().is_full(2), True, False),
        ("value + step", "value - step", lambda m: m.counter(1)(5), 6, 4),
        ("value + step", "value - step", lambda m: m.by_one(5), 6, 4),
    ],
    ids=["function", "method", "made later", "made at import"],
)
def test_functions_work_like_the_changed_text(
    sample: ModuleType, old: str, new: str, ask: Callable[[Any], object], before: object, after: object
) -> None:
    assert ask(sample) == before
    assert change(old, new)
    assert ask(sample) == after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("most=LIMIT", "most=4"),
        ("size = 2", "size = 3"),
        ("counter(1)", "counter(2)"),
    ],
)
def test_what_ran_at_import_cannot_be_changed_any_more(sample: ModuleType, old: str, new: str) -> None:
    assert not change(old, new)


def test_a_function_that_needs_other_variables_around_it_cannot_be_changed(sample: ModuleType) -> None:
    assert not change("return value + step", "return value")
