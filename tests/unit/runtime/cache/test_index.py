"""A filled index: entries in, entries out."""

from __future__ import annotations

import msgspec
import pytest

from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.index import IndexTable, label

APP = label("app")


def entry(name: str, namespace: str, app: str) -> Entry:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": app}}
    return EntryFactory().make(msgspec.json.encode({"metadata": metadata}))


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_what_is_taken_out_is_found_nowhere(namespace: str) -> None:
    table = IndexTable(APP)
    first, second = entry("a", namespace, "x"), entry("b", namespace, "x")
    table.insert(first)
    table.insert(second)
    table.remove(first)
    assert table.get("x") == (second,)
    table.remove(second)
    assert table.get("x") == table.get("x", namespace) == ()
    assert table.count("x") == 0


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_taking_out_what_was_never_in_changes_nothing(namespace: str) -> None:
    table = IndexTable(APP)
    kept = entry("kept", "ns", "x")
    table.insert(kept)
    table.remove(entry("stranger", namespace, "x"))
    assert table.get("x", "ns") == (kept,)
    table.remove(kept)
    table.remove(kept)
    assert table.count("x") == 0
