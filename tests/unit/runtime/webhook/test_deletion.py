"""Webhooks and objects that go: which operations are asked for, and what is let pass."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.runtime.webhook import Admission, AdmissionHandler, Chain, Denied, Validator
from tests.unit.runtime.servicekit import Gang

from .admissionkit import accept, ask, document, review


def refuse(admission: Admission, *_: Gang) -> None:
    raise Denied("no")


@pytest.mark.parametrize(
    ("functions", "operations"),
    [
        ({"checks": (accept,)}, ("CREATE", "UPDATE")),
        ({"create": accept}, ("CREATE",)),
        ({"update": refuse}, ("UPDATE",)),
        ({"delete": accept}, ("DELETE",)),
        ({"checks": (accept,), "delete": accept}, ("CREATE", "UPDATE", "DELETE")),
        ({"create": accept, "delete": accept, "operations": ("CREATE",)}, ("CREATE",)),
    ],
)
def test_a_validator_is_asked_about_the_operations_it_has_functions_for(
    functions: dict[str, Any], operations: tuple[str, ...]
) -> None:
    checks = functions.pop("checks", ())
    (rule,) = Validator(Gang, *checks, **functions).settings.rules
    assert rule.operations == operations


def going() -> dict[str, Any]:
    gang = document()
    gang["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return gang


def bare(**options: Any) -> AdmissionHandler:
    return AdmissionHandler("/x", lambda admission: refuse(admission), **options)


@pytest.mark.parametrize("make", [lambda **o: Validator(Gang, refuse, **o), bare], ids=["validator", "bare"])
async def test_an_object_that_is_being_deleted_may_be_updated(make: Any) -> None:
    update: dict[str, Any] = {"old": going(), "operation": "UPDATE"}
    assert (await ask(make(), review(going(), **update)))["response"]["allowed"]
    assert not (await ask(make(sees_deleting=True), review(going(), **update)))["response"]["allowed"]
    assert not (await ask(make(), review(document(), old=document(), operation="UPDATE")))["response"][
        "allowed"
    ]


async def test_who_invents_a_deletion_is_judged() -> None:
    """The object before says whether it goes: what is sent along by the user says nothing."""
    update = review(going(), old=document(), operation="UPDATE")
    assert not (await ask(Validator(Gang, refuse), update))["response"]["allowed"]
    lookalike = document(queue='"deletionTimestamp"')
    update = review(document(), old=lookalike, operation="UPDATE")
    assert not (await ask(Validator(Gang, refuse), update))["response"]["allowed"]


async def test_a_chain_of_validators_lets_it_pass_as_well() -> None:
    chain = Chain(Validator(Gang, refuse), Validator(Gang, accept))
    assert (await ask(chain, review(going(), old=going(), operation="UPDATE")))["response"]["allowed"]
