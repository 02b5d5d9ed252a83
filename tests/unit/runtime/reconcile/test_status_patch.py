"""The patch of a status: what differs and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from quarterdeck.api import UNSET, Condition, Maybe, Model, ObjectMeta, Resource, Seq, Time, omitempty
from quarterdeck.api.marker import Int64
from quarterdeck.runtime.reconcile.statusedit import ConditionEdit, StatusEdit
from quarterdeck.runtime.reconcile.statuswrite import rebased
from quarterdeck.wire.patch import merge_patch

NOW = Time("2030-01-01T00:00:00Z")


class BoxStatus(Model):
    color: str = omitempty("")
    count: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())
    observed_generation: Annotated[Maybe[int], Int64] = UNSET


class Box(Resource, group="example.com", version="v1", status=True):
    status: Maybe[BoxStatus] = UNSET


class PlainStatus(Model):
    color: str = omitempty("")


class Plain(Resource, group="example.com", version="v1", status=True):
    status: PlainStatus = omitempty(PlainStatus())


def patch_of(edit: StatusEdit[Any]) -> dict[str, Any]:
    change = edit.change()
    difference = merge_patch(*change) if change is not None else {}
    return {"status": difference} if difference else {}


def box(status: BoxStatus | None = None, generation: int = 3) -> StatusEdit[Box]:
    metadata = ObjectMeta(name="b", generation=generation)
    return StatusEdit(Box(metadata=metadata, status=UNSET if status is None else status), now=lambda: NOW)


def test_nobody_looked_is_nothing_to_write() -> None:
    edit = box()
    assert edit.is_touched is False
    assert patch_of(edit) == {}


def test_looked_at_and_left_alone_is_nothing_to_write() -> None:
    edit = box(BoxStatus(color="red", observed_generation=3))
    assert edit.draft.color == "red"
    assert edit.is_touched is True
    assert patch_of(edit) == {}


def test_set_to_what_it_was_is_nothing_to_write() -> None:
    edit = box(BoxStatus(color="red", observed_generation=3))
    edit.draft.color = "blue"
    edit.draft.color = "red"
    assert patch_of(edit) == {}


def test_only_what_differs_is_written_with_the_generation_it_was_made_for() -> None:
    edit = box(BoxStatus(color="red", count=1, observed_generation=2))
    edit.draft.color = "blue"
    assert patch_of(edit) == {"status": {"color": "blue", "observedGeneration": 3}}


def test_what_is_gone_is_written_as_null() -> None:
    edit = box(BoxStatus(color="red", count=1, observed_generation=3))
    edit.draft.count = UNSET
    assert patch_of(edit) == {"status": {"count": None}}


def test_the_first_status_of_an_object_is_written_whole() -> None:
    edit = box()
    edit.draft.count = 0
    assert patch_of(edit) == {"status": {"count": 0, "observedGeneration": 3}}


def test_an_object_without_generation_observes_none() -> None:
    edit = box(generation=0)
    edit.draft.count = 1
    assert patch_of(edit) == {"status": {"count": 1}}


def test_a_status_without_that_field_is_left_without_it() -> None:
    edit = StatusEdit(Plain(metadata=ObjectMeta(name="p", generation=3)), now=lambda: NOW)
    edit.draft.color = "blue"
    assert patch_of(edit) == {"status": {"color": "blue"}}


def test_a_condition_carries_time_and_generation_of_its_change() -> None:
    edit = box(BoxStatus(observed_generation=3))
    assert edit.conditions.set("Ready", True, reason="Done", message="all well") is True
    assert edit.conditions.is_true("Ready")
    assert not edit.conditions.is_false("Ready")
    assert patch_of(edit) == {
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "observedGeneration": 3,
                    "lastTransitionTime": "2030-01-01T00:00:00Z",
                    "reason": "Done",
                    "message": "all well",
                }
            ]
        }
    }


def test_a_condition_said_again_is_nothing_to_write() -> None:
    ready = Condition(
        type="Ready", status="True", reason="Done", last_transition_time=NOW, observed_generation=3
    )
    edit = box(BoxStatus(conditions=(ready,), observed_generation=3))
    assert edit.conditions.set("Ready", True, reason="Done") is False
    assert edit.conditions.find("Ready") == ready
    assert patch_of(edit) == {}


def test_a_condition_that_is_removed_is_gone() -> None:
    ready = Condition(type="Ready", status="True", reason="Done", last_transition_time=NOW)
    edit = box(BoxStatus(conditions=(ready,), observed_generation=3))
    assert edit.conditions.remove("Ready") is True
    assert edit.conditions.remove("Ready") is False
    assert patch_of(edit) == {"status": {"conditions": None}}


class Optional(Resource, group="example.com", version="v1", status=True):
    status: PlainStatus | None = None


def test_a_status_that_may_be_null_is_edited_as_its_class() -> None:
    edit = StatusEdit(Optional(metadata=ObjectMeta(name="o")), now=lambda: NOW)
    edit.draft.color = "red"
    assert patch_of(edit) == {"status": {"color": "red"}}


@pytest.mark.parametrize(
    ("edit", "present", "expected"),
    [
        (lambda c: c.set("Ready", True, reason="Up"), [], ["Ready"]),
        (lambda c: c.set("Ready", True, reason="Up"), ["Other"], ["Other", "Ready"]),
        (lambda c: c.set("Ready", True, reason="Up"), ["Mine", "Other"], ["Mine", "Other", "Ready"]),
        (lambda c: c.remove("Mine"), ["Mine", "Other"], ["Other"]),
        (lambda c: c.set("Mine", False, reason="No"), ["Other"], ["Other", "Mine"]),
    ],
)
def test_edits_of_conditions_are_made_to_what_others_have_written_meanwhile(
    edit: Callable[[ConditionEdit], object], present: list[str], expected: list[str]
) -> None:
    def condition(type: str) -> dict[str, str]:
        when = "2030-01-01T00:00:00Z"
        return {"type": type, "status": "True", "reason": "X", "message": "", "lastTransitionTime": when}

    read = Box.from_dict(
        {
            "apiVersion": "example.com/v1",
            "kind": "Box",
            "metadata": {"name": "a"},
            "status": {"conditions": [condition("Mine")]},
        }
    )
    status = StatusEdit(read, now=lambda: NOW)
    edit(status.conditions)
    change = status.change()
    assert change is not None
    written = rebased(*change, {"conditions": [condition(each) for each in present]})["conditions"]
    assert [each["type"] for each in written] == expected
