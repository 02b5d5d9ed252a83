"""The examples in the docstrings of this room are true."""

import doctest
import importlib
import pkgutil

import pytest

import quarterdeck.api


@pytest.mark.parametrize("name", sorted(info.name for info in pkgutil.iter_modules(quarterdeck.api.__path__)))
def test_examples_in_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"quarterdeck.api.{name}"))
    assert result.failed == 0
