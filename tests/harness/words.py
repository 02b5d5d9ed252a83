"""The words of case files: tables of what is understood, and the refusal of everything else.

A word that the runner does not know could change what a case means. A table says which words may stand where:

- a mapping is an object with these words and no others,
- a list of one table is a list of such,
- ``Named(table)`` is an object whose keys are names (of pods, say) and whose values are such,
- ``Tagged(word, tables)`` is an object whose ``word`` says which table holds for it: a step and its ``op``,
- a frozenset is one of these values,
- ``FREE`` is anything: a manifest, a label, a number.

What is null or absent is in order wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from .case import CaseFailure


class Free(msgspec.Struct, frozen=True):
    """Anything."""


class Named(msgspec.Struct, frozen=True):
    """An object whose keys are names."""

    values: Table


class Tagged(msgspec.Struct, frozen=True):
    """An object whose value at a word says which table holds for the rest of it."""

    word: str
    tables: Mapping[str, Words]


Table: TypeAlias = "Mapping[str, Table] | list[Table] | frozenset[Any] | Named | Tagged | Free"
Words: TypeAlias = "Mapping[str, Table]"

FREE: Final = Free()


def words(*free: str, **tables: Table) -> Words:
    """A table: words with any value, and words with tables of their own."""
    return {**dict.fromkeys(free, FREE), **tables}


def refuse_unknown(value: Any, table: Table, place: str) -> None:
    """Raises CaseFailure that names every word which is not understood, and its place."""
    unknown = list(unknown_words(value, table, place))
    if unknown:
        raise CaseFailure(*unknown)


def unknown_words(value: Any, table: Table, place: str) -> Iterator[str]:
    """A line for each word (or value) that is not understood."""
    if value is None or isinstance(table, Free):
        return
    if isinstance(table, frozenset):
        if isinstance(value, (dict, list)) or value not in table:
            yield f"{place}: {value!r} is not understood (one of {', '.join(map(str, sorted(table)))})"
    elif isinstance(table, list):
        if not isinstance(value, list):
            yield f"{place}: expected a list, found {value!r}"
            return
        for index, item in enumerate(value):
            yield from unknown_words(item, table[0], f"{place}[{index}]{_name(item)}")
    elif not isinstance(value, dict):
        yield f"{place}: expected an object, found {value!r}"
    elif isinstance(table, Tagged):
        tag = value.get(table.word)
        if isinstance(tag, str) and tag in table.tables:
            yield from unknown_words(value, {table.word: FREE, **table.tables[tag]}, place)
        else:
            yield f"{place}: {table.word} {tag!r} is not understood"
    elif isinstance(table, Named):
        for key, item in value.items():
            yield from unknown_words(item, table.values, f"{place}.{key}")
    else:
        for key, item in value.items():
            if key in table:
                yield from unknown_words(item, table[key], f"{place}.{key}")
            else:
                yield f"{place}.{key} is not understood"


def _name(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return f"({name})" if isinstance(name, str) else ""
