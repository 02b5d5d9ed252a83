"""What an operator is told about where it runs."""

from __future__ import annotations

import msgspec
import pytest

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.operator import OperatorEnvironment


class Speed(msgspec.Struct, forbid_unknown_fields=True):
    knots: int = 5


def test_an_operator_that_is_told_nothing_simulates_nothing_and_has_webhooks_registered() -> None:
    told = OperatorEnvironment(name="tug")
    assert not told.is_embedded
    assert told.registers_webhooks
    assert told.decode(Speed) == Speed(5)


def test_settings_that_do_not_fit_are_refused_by_operator_and_field() -> None:
    with pytest.raises(ConfigError, match=r"tug.*knots"):
        OperatorEnvironment(name="tug", settings={"knots": "many"}).decode(Speed)
    with pytest.raises(ConfigError, match=r"tug.*miles"):
        OperatorEnvironment(name="tug", settings={"miles": 1}).decode(Speed)
