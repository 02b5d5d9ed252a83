"""What a reconcile waits for."""

from __future__ import annotations

from quarterdeck.api import Condition, Key, ObjectMeta
from quarterdeck.runtime.reconcile.result import until_condition, until_gone
from tests.unit.runtime.runtimewidget import Widget, WidgetStatus


def widget(uid: str) -> Widget:
    return Widget(metadata=ObjectMeta(name="a", namespace="ns", uid=uid))


def test_an_object_is_gone_when_it_is_absent_or_another_one_has_its_name() -> None:
    gone = until_gone(widget("one"), Widget)
    assert gone.key == Key("ns", "a")
    assert gone.test(None) is True
    assert gone.test(widget("one")) is False
    assert gone.test(widget("two")) is True


def test_a_condition_of_an_object_that_is_absent_is_not_there_yet() -> None:
    assert until_condition(Widget, "a", "ns", "Ready").test(None) is False


def test_a_condition_is_met_by_its_own_type_and_status() -> None:
    wanted = until_condition(Widget, "a", "ns", "Ready", "False")

    def seen(type: str, status: str) -> Widget:
        condition = Condition(type=type, status=status, reason="R", message="")
        return Widget(status=WidgetStatus(conditions=(condition,)))

    assert wanted.test(seen("Ready", "False")) is True
    assert wanted.test(seen("Ready", "True")) is False
    assert wanted.test(seen("Synced", "False")) is False
    assert wanted.test(Widget()) is False
