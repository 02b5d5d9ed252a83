"""Which pods a Service selects and which Services a pod belongs to, without a look at all of either.

Selectors differ in their values far more than in the labels that they name: a thousand Services of one
operator name the same two. So everything is found by the labels that are named and their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.frozen import FrozenMap
from quarterdeck.api.k8s import Pod, Service
from quarterdeck.runtime.cache import Cache, Entry, Index


def is_selected(service: Service) -> bool:
    """Whether the endpoints of a Service are found by its selector."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)


def _names(labels: Iterable[str]) -> str:
    """The labels that a selector names; no comma is in any of them."""
    return ",".join(sorted(labels))


def _values(names: Iterable[str], labels: Mapping[str, str]) -> str | None:
    """The values of some labels; ``None`` unless all of them are there."""
    try:
        return ",".join([labels[name] for name in names])
    except KeyError:
        return None


def _named(service: Service) -> Iterable[str]:
    if is_selected(service):
        yield _names(service.spec.selector)


def _wanted(service: Service) -> Iterable[str]:
    if is_selected(service):
        names = _names(service.spec.selector)
        yield f"{names}={_values(names.split(','), service.spec.selector)}"


_by_names: Final[Index[Service]] = Index("selector-names", _named)
_by_selector: Final[Index[Service]] = Index("selector", _wanted)
SERVICE_INDEXES: Final[tuple[Index[Any], ...]] = (_by_names, _by_selector)
"""What a controller that asks for ``services_of`` declares of Services."""


@lru_cache(maxsize=1024)
def _pods_by(names: str) -> Index[Any]:
    split = names.split(",")

    def values(entry: Entry) -> tuple[str, ...]:
        found = _values(split, entry.labels)
        return (found,) if found is not None else ()

    return Index(f"labels:{names}", of_entry=values)


def pods_of(cache: Cache, service: Service) -> tuple[Entry, ...]:
    """The pods that a Service selects."""
    selector = service.spec.selector
    names = _names(selector)
    index, informer = _pods_by(names), cache.informer(Pod)
    informer.declare_index(index)
    table, values = informer.table(index.name), _values(names.split(","), selector)
    assert table is not None
    assert values is not None
    return table.get(values, service.metadata.namespace)


def services_of(cache: Cache, namespace: str, states: Sequence[FrozenMap[str, str]]) -> Iterator[Key]:
    """The Services that select a pod with labels as in one of its ``states``."""
    informer = cache.informer(Service)
    by_names, by_selector = informer.table(_by_names.name), informer.table(_by_selector.name)
    assert by_names is not None
    assert by_selector is not None
    for names in by_names.values(namespace):
        split = names.split(",")
        for labels in states:
            values = _values(split, labels)
            if values is not None:
                for entry in by_selector.get(f"{names}={values}", namespace):
                    yield entry.key
