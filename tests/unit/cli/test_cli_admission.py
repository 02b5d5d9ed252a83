"""The options of admission plugins: what `up` and `apiserver` make of them."""

from __future__ import annotations

import argparse

import pytest

from quarterdeck.apiserver.admission import plugin
from quarterdeck.cli.apiserver import add_server_arguments, server_options
from quarterdeck.cli.error import CommandError
from quarterdeck.cli.up import _admission_plugins


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_server_arguments(parser)
    return parser.parse_args(["--port", "0", *given])


def test_the_server_for_tests_has_no_service_accounts_unless_asked() -> None:
    assert server_options(arguments()).admission_plugins == plugin.FOR_TESTS
    asked = server_options(arguments("--enable-admission-plugins", "ServiceAccount,NodeRestriction"))
    assert asked.admission_plugins == plugin.FOR_CLUSTERS


def test_plugins_are_switched_off_by_several_options() -> None:
    given = arguments(
        "--disable-admission-plugins", "Priority", "--disable-admission-plugins", " PodSecurity ,Priority"
    )
    chosen = server_options(given, plugin.FOR_CLUSTERS).admission_plugins
    assert chosen == plugin.FOR_CLUSTERS - {"Priority", "PodSecurity"}


def test_a_name_nobody_knows_is_told() -> None:
    with pytest.raises(CommandError, match='--enable-admission-plugins plugin "Nope" is unknown; there are'):
        server_options(arguments("--enable-admission-plugins", "Nope"))


@pytest.mark.parametrize(
    ("controllers", "has_accounts"),
    [(None, True), ("none", False), ("deployment", False), ("*,-jobset", True), ("serviceaccount", True)],
)
def test_pods_need_an_account_where_somebody_makes_them(controllers: str | None, has_accounts: bool) -> None:
    assert ("ServiceAccount" in _admission_plugins(controllers)) is has_accounts
