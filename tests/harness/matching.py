"""Comparing an answer with an expectation.

Objects match when every expected key matches, lists element by element, scalars when equal. An
object whose keys start with `$` is a matcher. All mismatches are collected, each with its path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


#: the value of a key that is not there
MISSING: Final = _Missing()
#: long enough to recognise an object, short enough to read
_SHOWN_LENGTH: Final = 600


def mismatches(
    expected: Any, actual: Any, variables: Mapping[str, Any] | None = None, path: str = ""
) -> list[str]:
    """Every difference as `path: expected ..., got ...`; empty when `actual` satisfies `expected`."""
    return _Matcher(variables or {}).compare(expected, actual, path)


def json_equal(left: Any, right: Any) -> bool:
    """Deep equality as JSON has it: true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def show(value: Any) -> str:
    """A value for a report, shortened."""
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}... ({len(text)} characters)"


def _differs(path: str, expected: str, actual: Any) -> list[str]:
    return [f"{path or '(whole)'}: expected {expected}, got {show(actual)}"]


class _Matcher:
    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._matchers: dict[str, Callable[[Any, Any, str], list[str]]] = {
            "$absent": self._absent,
            "$falsy": self._falsy,
            "$any": self._any,
            "$regex": self._regex,
            "$contains": self._contains,
            "$exact": self._exact,
            "$len": self._len,
            "$includes": self._includes,
            "$excludes": self._excludes,
            "$unordered": self._unordered,
            "$ref": self._ref,
            "$notRef": self._not_ref,
        }

    def compare(self, expected: Any, actual: Any, path: str) -> list[str]:
        if isinstance(expected, dict):
            if self._is_matcher(expected):
                return self._apply(expected, actual, path)
            return self._object(expected, actual, path)
        if isinstance(expected, list):
            return self._list(expected, actual, path)
        return [] if json_equal(expected, actual) else _differs(path, show(expected), actual)

    def _is_matcher(self, expected: Mapping[str, Any]) -> bool:
        if not any(key.startswith("$") for key in expected):
            return False
        reference = expected.get("$ref")  # JSON schema's own $ref is data, not a matcher
        return not (isinstance(reference, str) and reference.startswith("#/"))

    def _apply(self, expected: Mapping[str, Any], actual: Any, path: str) -> list[str]:
        found: list[str] = []
        for name, argument in expected.items():
            matcher = self._matchers.get(name)
            if matcher is None:
                found.append(f"{path or '(whole)'}: unknown matcher {name}")
            else:
                found += matcher(argument, actual, path)
        return found

    def _object(self, expected: Mapping[str, Any], actual: Any, path: str) -> list[str]:
        if not isinstance(actual, dict):
            return _differs(path, "an object", actual)
        found: list[str] = []
        for key, value in expected.items():
            found += self.compare(value, actual.get(key, MISSING), f"{path}.{key}" if path else key)
        return found

    def _list(self, expected: list[Any], actual: Any, path: str) -> list[str]:
        if not isinstance(actual, list):
            return _differs(path, f"a list of {len(expected)}", actual)
        if len(actual) != len(expected):
            return _differs(path, f"{len(expected)} elements", actual)
        found: list[str] = []
        for index, value in enumerate(expected):
            found += self.compare(value, actual[index], f"{path}[{index}]")
        return found

    def _matches(self, expected: Any, actual: Any) -> bool:
        return not self.compare(expected, actual, "")

    def _absent(self, wanted: Any, actual: Any, path: str) -> list[str]:
        if (actual is MISSING) is bool(wanted):
            return []
        return _differs(path, "nothing" if wanted else "a value", actual)

    def _falsy(self, wanted: Any, actual: Any, path: str) -> list[str]:
        if (actual is MISSING or not actual) is bool(wanted):
            return []
        return _differs(path, "nothing, null or empty" if wanted else "a value that is not empty", actual)

    def _any(self, wanted: Any, actual: Any, path: str) -> list[str]:
        return self._absent(not wanted, actual, path)

    def _regex(self, pattern: str, actual: Any, path: str) -> list[str]:
        if isinstance(actual, str) and re.search(pattern, actual):
            return []
        return _differs(path, f"text matching {pattern!r}", actual)

    def _contains(self, part: Any, actual: Any, path: str) -> list[str]:
        if isinstance(actual, str) and isinstance(part, str) and part in actual:
            return []
        if isinstance(actual, list) and any(self._matches(part, item) for item in actual):
            return []
        return _differs(path, f"something containing {show(part)}", actual)

    def _exact(self, value: Any, actual: Any, path: str) -> list[str]:
        if actual is not MISSING and json_equal(value, actual):
            return []
        return _differs(path, f"exactly {show(value)}", actual)

    def _len(self, length: Any, actual: Any, path: str) -> list[str]:
        if isinstance(actual, list | str | dict) and len(actual) == length:
            return []
        return _differs(path, f"length {length}", actual)

    def _includes(self, items: list[Any], actual: Any, path: str) -> list[str]:
        if not isinstance(actual, list):
            return _differs(path, f"a list including {show(items)}", actual)
        missing = [item for item in items if not any(self._matches(item, other) for other in actual)]
        return [line for item in missing for line in _differs(path, f"an element like {show(item)}", actual)]

    def _excludes(self, items: list[Any], actual: Any, path: str) -> list[str]:
        if not isinstance(actual, list):
            return [] if actual is MISSING or actual is None else _differs(path, "a list", actual)
        found = [item for item in items if any(self._matches(item, other) for other in actual)]
        return [line for item in found for line in _differs(path, f"no element like {show(item)}", actual)]

    def _unordered(self, items: list[Any], actual: Any, path: str) -> list[str]:
        if not isinstance(actual, list) or len(actual) != len(items):
            return _differs(path, f"{len(items)} elements in any order, {show(items)}", actual)
        candidates = [
            [place for place, other in enumerate(actual) if self._matches(item, other)] for item in items
        ]
        if _assignable(candidates, len(actual)):
            return []
        return _differs(path, f"in any order {show(items)}", actual)

    def _ref(self, name: str, actual: Any, path: str) -> list[str]:
        if name not in self._variables:
            return [f"{path or '(whole)'}: no variable {name} was saved"]
        if actual is not MISSING and json_equal(self._variables[name], actual):
            return []
        return _differs(path, f"{show(self._variables[name])} (saved as {name})", actual)

    def _not_ref(self, name: str, actual: Any, path: str) -> list[str]:
        if name not in self._variables:
            return [f"{path or '(whole)'}: no variable {name} was saved"]
        if actual is not MISSING and json_equal(self._variables[name], actual):
            return _differs(path, f"anything but {show(self._variables[name])} (saved as {name})", actual)
        return []


def _assignable(candidates: list[list[int]], size: int) -> bool:
    """Whether each expected element can have an actual one of its own (augmenting paths)."""
    owner: list[int | None] = [None] * size

    def place(item: int, tried: set[int]) -> bool:
        for spot in candidates[item]:
            if spot in tried:
                continue
            tried.add(spot)
            current = owner[spot]
            if current is None or place(current, tried):
                owner[spot] = item
                return True
        return False

    return all(place(item, set()) for item in range(len(candidates)))
