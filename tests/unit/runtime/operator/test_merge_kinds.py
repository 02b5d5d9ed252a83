"""What several operators of one process cache of the same kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from quarterdeck.api import Resource
from quarterdeck.api.k8s.core import ConfigMap, Secret
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache import KindOptions, WatchSettings
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.operator.program import merge_kinds


class Caching(msgspec.Struct):
    """An operator of which only what it caches is asked."""

    name: str
    kinds: Mapping[type[Resource], KindOptions]

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        return self.kinds

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        return OperatorWebhooks()


def crew(*options: KindOptions) -> list[Operator]:
    return [Caching(f"operator-{number}", {Secret: each}) for number, each in enumerate(options)]


KEYS = WatchSettings(fields={"type": "kubernetes.io/ssh-auth"})


def test_namespaces_of_one_kind_add_up() -> None:
    merged = merge_kinds(crew(KindOptions(namespaces=["b", "c"]), KindOptions(namespaces={"a": KEYS})))
    assert merged[Secret].namespaces == {"a": KEYS, "b": WatchSettings(), "c": WatchSettings()}


def test_kinds_of_one_operator_are_its_own() -> None:
    others = Caching("other", {ConfigMap: KindOptions(labels="app")})
    merged = merge_kinds([*crew(KindOptions(namespaces=["a"])), others])
    assert merged == {Secret: KindOptions(namespaces=["a"]), ConfigMap: KindOptions(labels="app")}


def test_operators_that_agree_need_no_merging() -> None:
    assert merge_kinds(crew(KindOptions(labels="app"), KindOptions(labels="app"))) == {
        Secret: KindOptions(labels="app")
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (KindOptions(namespaces=["a"]), KindOptions()),
        (KindOptions(), KindOptions(namespaces=["a"])),
        (KindOptions(labels="app"), KindOptions(labels="other")),
        (KindOptions(namespaces=["a"]), KindOptions(namespaces={"a": KEYS})),
    ],
)
def test_operators_that_disagree_are_refused_by_name(first: KindOptions, second: KindOptions) -> None:
    with pytest.raises(ConfigError, match="operator-1 caches Secret unlike another operator"):
        merge_kinds(crew(first, second))
