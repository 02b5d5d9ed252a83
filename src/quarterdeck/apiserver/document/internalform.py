"""Parts of objects as the real server's internal structs print: Go names, struct order, zero values.

Errors about what may not change show a pod spec, a template or a policy in this form. The table of fields
is `data/internal.json`; `tools/k8s/internalform.py` makes it and says what is in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire import gostyle

from .typetable import OBJECT_META, Type

_ZEROS: Final[Mapping[str, Any]] = {"string": "", "int": 0, "bool": False, "any": None}


@cache
def _table() -> dict[str, list[tuple[str, str, str]]]:
    data = (Path(__file__).parent.parent / "data" / "internal.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, list[tuple[str, str, str]]])


def internal_form(struct: str, value: Mapping[str, Any], outer: Mapping[str, Any] | None = None) -> Json:
    """A struct of the core group; `outer` is the object around it, some of whose fields belong in it."""
    shown: Json = {}
    for name, key, kind in _table()[struct]:
        if kind == "meta":
            shown |= ordered_metadata(value.get(key) or {})
            continue
        source = (outer or {}).get(key[1:]) if key.startswith("^") else value.get(key)
        shown[name] = _form(kind, source, value)
    return shown


def ordered_metadata(metadata: Mapping[str, Any]) -> Json:
    """Metadata as Go prints it: fields in struct order, maps sorted."""
    ordered: Json = _in_order(metadata, Type("struct", OBJECT_META))
    return ordered


def _in_order(value: Any, type_: Type) -> Any:
    if type_.kind == "struct" and isinstance(value, Mapping):
        fields = type_.struct.fields
        return {key: _in_order(value[key], fields[key].type) for key in fields if key in value}
    if type_.elem is not None and isinstance(value, list):
        return [_in_order(item, type_.elem) for item in value]
    if isinstance(value, Mapping):  # a map, or the set of fields an owner has
        return {key: _in_order(value[key], type_) for key in sorted(value)}
    return value


def _form(kind: str, value: Any, outer: Mapping[str, Any]) -> Any:
    if kind.startswith("*"):
        return None if value is None else _form(kind[1:], value, outer)
    if kind.startswith("[]"):
        return None if value is None else [_form(kind[2:], item, outer) for item in value]
    if kind.startswith("{}"):
        return {key: _form(kind[2:], value[key], outer) for key in sorted(value)} if value else None
    if kind in _ZEROS:
        return _ZEROS[kind] if value is None else value
    return internal_form(kind, value or {}, outer)


def internal_text(struct: str, value: Mapping[str, Any]) -> msgspec.Raw:
    """The form as JSON, ready for an error text."""
    return msgspec.Raw(gostyle.escaped(msgspec.json.encode(internal_form(struct, value))))


def internal_diff(struct: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The changed lines of two structs, for people."""
    before, after = (
        gostyle.escaped(msgspec.json.format(msgspec.json.encode(internal_form(struct, each)), indent=1))
        .decode()
        .splitlines()
        for each in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return "".join(f"{line}\n" for line in lines)
