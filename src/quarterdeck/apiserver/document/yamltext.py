"""YAML as Go's servers write it, of documents that could be JSON.

Most of an object is plain words under well-known keys, and those are put together here. Texts that need
quotes, escapes, several lines or folding are left to libyaml, one at a time, in the place where they stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cmp_to_key, lru_cache
from io import StringIO
from typing import Any, Final

import msgspec
import yaml

from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gonumber import float_text

_WIDTH: Final = 80
"""Columns after which libyaml begins a new line."""
_STEP: Final = "  "
_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_KEPT: Final = 2048
"""Bytes of a part, at most, that is remembered with its lines."""
_KEPT_ITEM: Final = 8192
"""The same of an item of a list."""
#: texts that stand for themselves where nothing else is to be feared than that they read as another type
_PLAIN: Final = re.compile(
    r"""(?!-\x20)[A-Za-z0-9_./+-](?:[A-Za-z0-9_./@=+,;()*%$^~!?'"\\<>{}\[\]|&`-]|:(?!\x20)|\#|\x20(?![\x20#]|$))*+"""
).fullmatch
_WORD: Final = re.compile(r"[A-Za-z]+").fullmatch
#: what most texts are that begin with a digit; the others are left to the YAML library to judge
_COUNT: Final = re.compile(r"[1-9][0-9]*").fullmatch
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
#: texts that mean something else than themselves in YAML 1.1, in lower case
_MEANINGFUL: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_TAG: Final = "tag:yaml.org,2002:"
#: `=`, `<<` and `*` mean nothing to Go where they stand for a text
_TEXT_TAGS: Final = tuple(_TAG + name for name in ("str", "value", "merge", "yaml"))
#: what Go reads as a boolean or a number and Python's YAML as text
_NUMBER: Final = re.compile(r"0o[0-7]+|[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?").fullmatch


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_decode_mapping: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def to_yaml(document: Any) -> bytes:
    """The YAML of a document made of dictionaries, lists and scalars."""
    return json_to_yaml(_encode(document))


def json_to_yaml(raw: bytes) -> bytes:
    """The YAML of a document in JSON, which has no blanks between its parts."""
    try:
        if _is_mapping(raw):
            return _mapping(raw, "").encode()
    except UnusualKey:
        pass
    return _dumped(_sorted(_decode(raw))).encode()


def list_item(raw: bytes) -> bytes:
    """The lines of a mapping in JSON as an item of a list whose key is not indented.

    Raises UnusualKey where they depend on what is around them.
    """
    return _kept_item(raw) if len(raw) <= _KEPT_ITEM else _new_item(raw)


def _new_item(raw: bytes) -> bytes:
    return f"- {_mapping(raw, _STEP)[len(_STEP) :]}".encode()


_kept_item: Final = lru_cache(maxsize=1024)(_new_item)
"""Who asks for a list asks for it again."""


class UnusualKey(QuarterdeckError):
    """A key that takes more than a line: libyaml has to write everything."""


def _sorted(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _sorted(node[key]) for key in _ordered(tuple(node))}
    return [_sorted(item) for item in node] if isinstance(node, list) else node


def _is_mapping(raw: bytes) -> bool:
    return raw.startswith(b"{") and raw != b"{}"


def _is_block(raw: bytes) -> bool:
    """Whether a value stands on lines of its own: it is a mapping or a list, and not empty."""
    return raw[0] in _OPENING and raw[1] not in _CLOSING


def _mapping(raw: bytes, indent: str) -> str:
    """The lines of a mapping that is not empty."""
    values = _decode_mapping(raw)
    out = []
    for key in _ordered(tuple(values)):
        value = bytes(values[key])
        entry = _kept_entry if len(value) <= _KEPT else _entry
        out.append(entry(key, value, indent))
    return "".join(out)


def _entry(key: str, value: bytes, indent: str) -> str:
    """The lines of a key of a mapping."""
    if not _is_block(value):
        return _line(key, _decode(value), indent)
    if value[0] == _OPENING[0]:
        return f"{indent}{_key(key)}\n{_mapping(value, indent + _STEP)}"
    return f"{indent}{_key(key)}\n{_sequence(value, indent)}"


_kept_entry: Final = lru_cache(maxsize=4096)(_entry)
"""Objects have most of their parts in common with others of their kind."""


def _line(key: str, value: Any, indent: str) -> str:
    """The line, or lines, of a key with a scalar or something empty."""
    text = _simple(value) if type(value) is str else None
    if text is None or _might_fold(value, len(_key(key)) + len(text) + len(indent) + 1):
        text = _scalar(value, key, len(indent))
    return f"{indent}{_key(key)}{text}\n"


def _might_fold(text: str, end: int) -> bool:
    """Whether libyaml might break the line of a text that would end in the given column."""
    return end > _WIDTH and " " in text


def _sequence(raw: bytes, indent: str) -> str:
    """The lines of a list that is not empty."""
    out = []
    for each in _decode_list(raw):
        item = bytes(each)
        out.append(_kept_element(item, indent) if len(item) <= _KEPT else _element(item, indent))
    return "".join(out)


def _element(item: bytes, indent: str) -> str:
    """The lines of an element of a list."""
    if _is_block(item):
        inner = indent + _STEP
        lines = _mapping(item, inner) if item[0] == _OPENING[0] else _sequence(item, inner)
        return f"{indent}- {lines[len(inner) :]}"
    value = _decode(item)
    text = _simple(value) if type(value) is str else None
    if text is None or _might_fold(value, len(text) + len(indent)):
        text = _scalar(value, None, len(indent))
    return f"{indent}-{text}\n"


_kept_element: Final = lru_cache(maxsize=1024)(_element)


@lru_cache(maxsize=4096)
def _key(key: str) -> str:
    """A key with what separates it from its value, but the blank."""
    text = _simple(key)
    if text is not None and len(key) < 100:
        return f"{text[1:]}:"
    name = _dumped({key: 0})[: -len(" 0\n")]
    if "\n" in name:
        raise UnusualKey
    return name


def _simple(text: str) -> str | None:
    """A text as it stands behind its key if that does not depend on the place; with a blank in front."""
    if not text:
        return ' ""'
    if text in ("=", "<<"):
        return f" {text}"
    if not _PLAIN(text) or text[-1] == ":":
        return None
    if _WORD(text):
        return f' "{text}"' if text.lower() in _MEANINGFUL else f" {text}"
    if text[0].isalpha():
        return f" {text}"
    if _COUNT(text):
        return f' "{text}"'
    if _UID(text):
        return f" {text}"
    if text == "-" or text[:3] in ("---", "..."):
        return None
    return f" {text}" if _reads_as_text(text) else f' "{text}"'


def _scalar(value: Any, key: str | None, indent: int) -> str:
    """Any scalar, or something empty, where it stands: under a key, or in a list."""
    if value is None:
        return " null"
    if isinstance(value, dict | list):
        return " {}" if isinstance(value, dict) else " []"
    if value is True or value is False:
        return " true" if value else " false"
    if type(value) is int:
        return f" {value}"
    if type(value) is float:
        return f" {float_text(value)}"
    # behind a key of the same length at the same depth, in mappings of one key each; a list stands as deep
    # as its key
    width = 1 if key is None else len(_key(key))
    holder: Any = [value] if key is None else {"x" * (width - 1): value}
    depth = indent // len(_STEP) + (key is None)
    for _ in range(depth):
        holder = {"x": holder}
    within = _dumped(holder).removesuffix("\n").split("\n", depth)[-1]
    return within[indent + width :]


class _Dumper(yaml.CSafeDumper):
    """YAML as Go writes it: what would read as something else than a string is in double quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        found = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if kind is yaml.ScalarNode and implicit[0] and found in _TEXT_TAGS:
            return _TAG + ("float" if _NUMBER(value) else "bool" if value in "yYnN" else "str")
        return found


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None if _reads_as_text(text) else '"'
    return dumper.represent_scalar(_TAG + "str", text, style=style)


def _represent_number(dumper: yaml.CSafeDumper, number: float) -> Any:
    return dumper.represent_scalar(_TAG + "float", float_text(number))


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_number)
_resolver: Final = _Dumper(StringIO())


def _reads_as_text(text: str) -> bool:
    return bool(_resolver.resolve(yaml.ScalarNode, text, (True, False)) == _TAG + "str")


def _dumped(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("...\n") if text.endswith("\n...\n") else text  # an end mark


# -- the order of keys -----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _ordered(keys: tuple[str, ...]) -> Sequence[str]:
    """Keys as Go's YAML sorts them: numbers in them by value, and letters behind everything else."""
    if all(map(_WORD, keys)):
        return sorted(keys)
    return sorted(keys, key=cmp_to_key(_compare))


def _compare(left: str, right: str) -> int:
    for at, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            if a.isalpha() and b.isalpha():
                return -1 if a < b else 1
            return -1 if b.isalpha() else 1
        one, two = _digits(left, at), _digits(right, at)
        # behind a number that has begun, a zero counts
        has_begun = "0" in (a, b) and any(digit != "0" for digit in _digits_before(left, at))
        m, n = int(f"{1 if has_begun else 0}{one}"), int(f"{1 if has_begun else 0}{two}")
        if m != n:
            return -1 if m < n else 1
        if len(one) != len(two):
            return -1 if len(one) < len(two) else 1
        return -1 if a < b else 1
    return len(left) - len(right)


def _digits(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end].isdecimal():
        end += 1
    return text[start:end]


def _digits_before(text: str, end: int) -> str:
    start = end
    while start > 0 and text[start - 1].isdecimal():
        start -= 1
    return text[start:end]
