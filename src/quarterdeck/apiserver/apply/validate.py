"""Checking an object against the type model, in structured-merge-diff's words.

This is the check an apply configuration has to pass before it is merged. It is about shape only:
declared fields, kinds of values, identities of list items. Constraints come later, with the schema.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.wire import gostyle
from quarterdeck.wire.gonumber import float_text

from .typed import DEDUCED, UNTYPED, AnyType, ItemError, ListType, MapType, Scalar, Type, TypeModel

#: (path, message)
Problem = tuple[str, str]


def validate(model: TypeModel, value: Any, *, allow_duplicates: bool = False) -> list[Problem]:
    """Everything that does not fit; `allow_duplicates` for stored objects, whose sets may repeat items."""
    problems: list[Problem] = []
    _check(model.root, value, "", allow_duplicates, problems)
    return problems


def error_text(problems: list[Problem]) -> str:
    """The problems as one error: `.spec.x: field not declared in schema`."""
    texts = [f"{path}: {message}" if path else message for path, message in problems]
    return texts[0] if len(texts) == 1 else "\n".join(["errors:", *("  " + text for text in texts)])


def _check(type_: Type, value: Any, path: str, allow_duplicates: bool, problems: list[Problem]) -> None:
    if value is None or type_ is DEDUCED or type_ is UNTYPED:
        return
    if isinstance(type_, AnyType):
        type_ = type_.select(value)
    if isinstance(type_, MapType):
        if isinstance(value, dict):
            _check_map(type_, value, path, allow_duplicates, problems)
        else:
            problems.append((path, f"expected map, got &{{{gostyle.plain(value)}}}"))
    elif isinstance(type_, ListType):
        if isinstance(value, list):
            _check_list(type_, value, path, allow_duplicates, problems)
        else:
            problems.append((path, f"expected list, got &{{{gostyle.plain(value)}}}"))
    else:
        message = _scalar_message(type_, value)
        if message:
            problems.append((path, message))


def _check_map(
    type_: MapType, value: dict[str, Any], path: str, allow_duplicates: bool, problems: list[Problem]
) -> None:
    for name, item in value.items():
        entry = type_.resolve(name)
        if entry is None:
            problems.append((f"{path}.{name}", "field not declared in schema"))
            return  # one unknown field per object is reported
        _check(entry[1], item, f"{path}.{name}", allow_duplicates, problems)


def _check_list(
    type_: ListType, value: list[Any], path: str, allow_duplicates: bool, problems: list[Problem]
) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        shown = f"[{index}]"
        if not type_.is_leaf:
            try:
                element = type_.element_of(item)
            except ItemError as error:
                problems.append((path, f"element {index}: {error}"))
                return
            shown = _show_element(type_, item)
            if element in seen and not allow_duplicates:
                problems.append((path, f"duplicate entries for key {shown}"))
            seen.add(element)
        _check(type_.element, item, path + shown, allow_duplicates, problems)


def _show_element(type_: ListType, item: Any) -> str:
    if not type_.keys:
        return f"[={_show(item)}]"
    return "[" + ",".join(f"{name}={_show(value)}" for name, value in type_.key_fields(item).items()) + "]"


def _show(value: Any) -> str:
    return float_text(value) if isinstance(value, float) else gostyle.scalar(value)


def _scalar_message(type_: Scalar, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if type_.kind == "numeric":
        return "" if is_number else f"expected numeric (int or float), got {gostyle.type_name(value)}"
    if type_.kind == "string":
        if isinstance(value, str):
            return ""
        return f"expected string, got &value.valueUnstructured{{Value:{gostyle.syntax(value)}}}"
    if type_.kind == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{gostyle.plain(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{gostyle.plain(value)}}}"
    return ""
