"""What a store makes of what it is told, and what it counts."""

from __future__ import annotations

import msgspec
import pytest

from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Change, Store
from quarterdeck.runtime.cache.version import is_at_least, is_comparable, is_newer


def entry(name: str, version: str = "1", uid: str = "u", namespace: str = "ns", data: str = "") -> Entry:
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version}
    return EntryFactory().make(msgspec.json.encode({"metadata": metadata, "data": data}))


class Watched(Store):
    def __init__(self, *entries: Entry) -> None:
        self.swaps: list[tuple[Entry | None, Entry | None]] = []
        super().__init__(lambda old, new: self.swaps.append((old, new)))
        for each in entries:
            self.put(each)


def test_objects_and_bytes_are_counted_as_they_come_and_go() -> None:
    first, second, newer = entry("a"), entry("b"), entry("a", "10")
    store = Watched(first, second)
    assert (len(store), store.bytes) == (2, len(first.body) + len(second.body))
    store.put(newer)
    assert (len(store), store.bytes) == (2, len(newer.body) + len(second.body))
    store.remove(second)
    assert (len(store), store.bytes) == (1, len(newer.body))
    assert store.swaps == [(None, first), (None, second), (first, newer), (second, None)]


def test_a_namespace_is_known_while_it_has_objects() -> None:
    store = Watched(entry("a", namespace="x"), entry("b", namespace="x"), entry("c", namespace="y"))
    assert store.namespaces() == ("x", "y")
    store.remove(entry("a", namespace="x"))
    assert store.namespaces() == ("x", "y")
    store.remove(entry("b", namespace="x"))
    assert store.namespaces() == ("y",)
    assert [each.name for each in store.entries("x")] == []
    assert [each.name for each in store.entries("y")] == ["c"]


def test_late_news_change_nothing() -> None:
    store = Watched(entry("a", "5"))
    assert store.put(entry("a", "5")) == []
    assert store.put(entry("a", "4")) == []
    assert store.remove(entry("a", "9", uid="earlier")) == []
    assert store.remove(entry("stranger")) == []
    assert len(store.swaps) == 1


@pytest.mark.parametrize(("known", "told"), [("", "u"), ("u", ""), ("", "")])
def test_a_deletion_without_a_uid_is_believed(known: str, told: str) -> None:
    store = Watched(entry("a", uid=known))
    (delta,) = store.remove(entry("a", uid=told))
    assert delta.change is Change.DELETED
    assert not delta.is_unknown
    assert len(store) == 0


def test_another_uid_is_a_deletion_that_nobody_saw_and_an_addition() -> None:
    store = Watched(entry("a"))
    gone, added = store.put(entry("a", "2", uid="v"), is_initial=True)
    assert (gone.change, gone.is_unknown, gone.is_initial) == (Change.DELETED, True, False)
    assert (added.change, added.is_unknown, added.is_initial) == (Change.ADDED, False, True)
    assert gone.entry.uid == "u"
    assert added.entry.uid == "v"
    assert len(store) == 1


def test_a_list_differs_by_version_by_uid_and_by_what_is_new() -> None:
    store = Watched(entry("a"))
    assert not store.differs(entry("a"))
    assert store.differs(entry("a", "2"))
    assert store.differs(entry("a", uid="v"))
    assert store.differs(entry("b"))


def test_what_a_list_leaves_out_was_deleted_unseen() -> None:
    store = Watched(entry("a"), entry("b"), entry("a", namespace="other"))
    missing = store.missing_from({"ns": {"a"}})
    assert sorted(str(each.key) for each in missing) == ["ns/b", "other/a"]
    deltas = store.drop(missing)
    assert all(each.change is Change.DELETED and each.is_unknown for each in deltas)
    assert [str(each.key) for each in store.entries()] == ["ns/a"]


def test_the_version_of_a_store_never_goes_back() -> None:
    store = Watched()
    store.see("9")
    store.see("10")
    store.see("9")
    assert store.version == "10"


def test_versions_of_one_length_compare_as_text_and_longer_ones_are_newer() -> None:
    assert is_newer("12", "11")
    assert not is_newer("11", "12")
    assert is_newer("100", "99")
    assert not is_newer("99", "100")
    assert not is_newer("11", "11")
    assert is_at_least("11", "11")
    assert is_at_least("12", "11")
    assert is_at_least("100", "99")
    assert not is_at_least("11", "12")
    assert not is_at_least("99", "100")


@pytest.mark.parametrize("odd", ["", "0", "01", "x", "٣"])
def test_what_is_no_version_is_never_newer_and_never_waited_for(odd: str) -> None:
    assert not is_comparable(odd)
    assert not is_newer(odd, "1")
    assert not is_newer("999999", odd)
    assert is_at_least("1", odd)
    assert is_at_least(odd, "999999")


def test_what_a_list_says_counts_whatever_the_versions_are() -> None:
    """A server that was restored from a backup has older versions, and gives versions twice."""
    store = Store(lambda old, new: None)
    store.put(entry("a", version="20", data="new"))
    assert store.put(entry("a", version="7", data="old")) == [], "of a watch it would be late news"
    assert store.differs(entry("a", version="7", data="old"))
    (delta,) = store.put(entry("a", version="7", data="old"), is_listed=True)
    assert delta.change is Change.UPDATED
    assert store.differs(entry("a", version="7", data="another")), "another state of the same version"
    assert not store.differs(entry("a", version="7", data="old"))
