"""Objects that are remembered decoded: which, how many, and what it saved."""

from __future__ import annotations

import msgspec

from quarterdeck.runtime.cache.decoding import ObjectDecoder
from quarterdeck.runtime.cache.entry import Entry, EntryFactory

decode = msgspec.json.Decoder().decode


def entry(name: str) -> Entry:
    return EntryFactory().make(msgspec.json.encode({"metadata": {"name": name}}))


A, B, C = entry("a"), entry("b"), entry("c")
SIZE = len(A.body)


def test_an_object_is_decoded_once_and_hits_are_counted() -> None:
    read = ObjectDecoder(decode)
    assert read(A) is read(A) is read(A)
    found = read.statistics()
    assert (found.hits, found.misses, found.remembered, found.remembered_bytes) == (2, 1, 1, SIZE)


def test_what_was_used_longest_ago_makes_room() -> None:
    read = ObjectDecoder(decode, remembered_bytes=2 * SIZE)
    a, b = read(A), read(B)
    assert read(A) is a
    read(C)
    assert (read.statistics().remembered, read.statistics().remembered_bytes) == (2, 2 * SIZE)
    assert read(A) is a
    assert read(B) is not b


def test_without_room_nothing_is_remembered() -> None:
    read = ObjectDecoder(decode, remembered_bytes=0)
    assert read(A) is not read(A)
    assert (read.statistics().remembered, read.statistics().misses) == (0, 2)


def test_a_pass_over_everything_remembers_nothing_but_uses_what_is_known() -> None:
    read = ObjectDecoder(decode)
    a = read(A)
    assert read.once(A) is a
    assert read.once(B) is not read.once(B)
    assert read.statistics().remembered == 1


def test_an_object_that_left_is_forgotten_once() -> None:
    read = ObjectDecoder(decode)
    read(A)
    read(B)
    for _ in range(2):
        read.forget(A)
    assert (read.statistics().remembered, read.statistics().remembered_bytes) == (1, SIZE)
