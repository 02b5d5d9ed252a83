"""What a program's cache holds of the kinds that its operators name."""

from __future__ import annotations

from quarterdeck.api import UNSET
from quarterdeck.api.k8s import Pod, Secret
from quarterdeck.runtime.cache.options import KindOptions
from quarterdeck.runtime.operator.program import whole_kinds


def test_a_shared_cache_keeps_everything_in_the_way_an_operator_asks_for() -> None:
    limited = KindOptions(namespaces=["a"], labels="app", fields="type=x", transform=None)
    packed = KindOptions(is_packed=True, remembered_bytes=1)
    kinds = whole_kinds({Secret: limited, Pod: packed})
    assert kinds[Pod] == packed
    everything = kinds[Secret]
    assert (everything.namespaces, everything.labels, everything.fields, everything.transform) == (UNSET,) * 4
