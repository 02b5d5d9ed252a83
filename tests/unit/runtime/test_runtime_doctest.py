"""The examples in the docstrings of this room are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import quarterdeck.runtime

EXAMPLES = sorted(
    info.name
    for info in pkgutil.walk_packages(quarterdeck.runtime.__path__, "quarterdeck.runtime.")
    if not info.ispkg
    and ">>> " in Path(importlib.import_module(info.name).__file__ or "").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert result.failed == 0
