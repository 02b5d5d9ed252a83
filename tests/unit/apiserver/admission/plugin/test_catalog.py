"""Which plugins run: the defaults, and what the options make of them."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.admission import plugin

from .pluginkit import PODS, Api, pod, run


def test_the_defaults_are_upstreams() -> None:
    assert len(plugin.DEFAULT) == 27
    assert plugin.DEFAULT - {"ServiceAccount"} == plugin.FOR_TESTS
    assert plugin.DEFAULT | {"NodeRestriction"} == plugin.FOR_CLUSTERS


def test_names_switch_plugins_on_and_off() -> None:
    chosen = plugin.choose(plugin.FOR_TESTS, ["ServiceAccount"], ["Priority"])
    assert chosen == (plugin.FOR_TESTS | {"ServiceAccount"}) - {"Priority"}


@pytest.mark.parametrize(
    ("enable", "disable", "problem"),
    [
        (["Nope"], [], 'enable-admission-plugins plugin "Nope" is unknown'),
        ([], ["Nope"], 'disable-admission-plugins plugin "Nope" is unknown'),
        (["AlwaysPullImages"], [], 'enable-admission-plugins plugin "AlwaysPullImages" is not part of'),
        (["Priority"], ["Priority"], "Priority in enable-admission-plugins and disable-admission-plugins"),
        ([], ["NamespaceLifecycle"], '"NamespaceLifecycle" is part of every create and stays on'),
    ],
)
def test_names_that_cannot_be_had_are_told(enable: list[str], disable: list[str], problem: str) -> None:
    with pytest.raises(plugin.UnknownPlugin) as caught:
        plugin.choose(plugin.DEFAULT, enable, disable)
    assert problem in str(caught.value)


def test_a_plugin_that_is_off_does_nothing() -> None:
    async def scenario(api: Api) -> None:
        spec = (await api.create(PODS, pod()))["spec"]
        assert "priority" not in spec
        assert "tolerations" not in spec
        assert "volumes" not in spec

    run(scenario, frozenset())
