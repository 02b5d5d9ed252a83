"""Users and the names that mean something."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.auth.user import (
    UserInfo,
    service_account_groups,
    service_account_username,
    split_node,
    split_service_account,
)


def test_json_form_leaves_out_what_is_empty() -> None:
    assert UserInfo("bob").to_json() == {"username": "bob"}
    full = UserInfo("bob", "u1", ("g",), {"b": ("2",), "a": ("1", "x")})
    assert full.to_json() == {
        "username": "bob",
        "uid": "u1",
        "groups": ["g"],
        "extra": {"a": ["1", "x"], "b": ["2"]},
    }


def test_an_authenticated_user_gets_the_group_once() -> None:
    once = UserInfo("bob", groups=("g",)).authenticated()
    assert once.groups == ("g", "system:authenticated")
    assert once.authenticated() is once


@pytest.mark.parametrize(
    "user",
    [UserInfo("system:anonymous"), UserInfo("x", groups=("system:unauthenticated",))],
)
def test_an_unauthenticated_user_stays_one(user: UserInfo) -> None:
    assert user.authenticated() is user


def test_only_system_masters_makes_a_master() -> None:
    assert UserInfo("x", groups=("a", "system:masters")).is_master
    assert not UserInfo("system:masters", groups=("masters",)).is_master


def test_service_account_names_round_trip() -> None:
    assert split_service_account(service_account_username("ns", "a.b")) == ("ns", "a.b")
    assert service_account_groups("ns") == ("system:serviceaccounts", "system:serviceaccounts:ns")


@pytest.mark.parametrize(
    "name",
    [
        "bob",
        "system:serviceaccount:ns",
        "system:serviceaccount:ns:a:b",
        "system:serviceaccount:N:a",
        "system:serviceaccount:a.b:c",
        "system:serviceaccount::a",
        "system:serviceaccount:ns:",
        "system:serviceaccounts:ns:a",
    ],
)
def test_other_names_are_no_service_accounts(name: str) -> None:
    assert split_service_account(name) is None


def test_node_names_are_recognized() -> None:
    assert split_node("system:node:n1.example") == "n1.example"
    assert split_node("system:node:") is None
    assert split_node("system:node:UPPER") is None
    assert split_node("n1") is None
