"""Ways to spoil a document: other values, other types, other keys, and text that is almost JSON."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

Document = Any
Place = tuple[str | int, ...]


def token(text: str) -> str:
    """Stands for text that goes into the JSON as it is, for what json.dumps cannot write."""
    return f"@@raw:{text}@@"


_TOKEN: Final = re.compile(r'"@@raw:(.*?)@@"')

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**40),
    *(0.5, 1.0, -0.0, 1e308, 5e-324, 1.5e300),
    *("", " ", "a", "A", "a" * 64, "a" * 254, "b" * 5000, "ä€𝄞", "\x00", "\ud800", "\n", "a b", "-", "."),
    *("..", "../../etc", "%2e%2e", "a/b", "a/b/c", "/", "{}", "[]", "null", "0", "-1", "1.5", "true"),
    *("1e999999999", "9" * 400, "1Ki", "1.5Gi", "-1m", "1e3", "0.0000000000000000001", "1n", "+1", "1_000"),
    *(
        "2026-99-99T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
        "2026-01-01",
        "300ms",
    ),
    *("(a+)+$", "[", "(?=x)", "self.x.y", "$(x)", "${x}", "{{", "'", '"', "\\", "<script>", "=", ",", "!x"),
    *([], [[]], [None], [1, "a", {}], {}, {"": ""}, {"a": None}, {"$patch": "delete"}, {"$ref": "#"}),
    *([{"name": "a"}, {"name": "a"}], [{}, {}], {"matchLabels": {"a": 1}}, {"f:x": {}}, {"k:{": {}}),
    *(token("1e400"), token("NaN"), token("-Infinity"), token("01"), token("-"), token("0x10"), token("1e")),
    *(
        token("9" * 1000),
        token("1." + "0" * 1000),
        token('"\\ud800"'),
        token('"\\x"'),
        token("tru"),
        token(""),
    ),
)

KEYS: Final = (
    "",
    "a",
    "nosuch",
    "metadata",
    "spec",
    "status",
    "kind",
    "$patch",
    "a b",
    "ä",
    "x" * 300,
    "__proto__",
)


def encode(document: Document) -> bytes:
    """JSON, with the raw tokens put in."""
    text = json.dumps(document, separators=(",", ":"))
    return _TOKEN.sub(lambda found: json.loads(f'"{found[1]}"'), text).encode("utf-8", "surrogatepass")


def places(document: Document) -> Iterator[Place]:
    """The paths of all values in a document, the root's (empty) one included."""
    yield ()
    if isinstance(document, dict):
        for key, value in document.items():
            for rest in places(value):
                yield (key, *rest)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            for rest in places(value):
                yield (index, *rest)


def spoil(document: Document, rng: random.Random, times: int = 1) -> Document:
    """A copy with that many random changes."""
    document = copy.deepcopy(document)
    for _ in range(times):
        place = rng.choice(list(places(document)))
        document = rng.choice(_CHANGES)(document, place, rng)
    return document


def spoil_text(data: bytes, rng: random.Random) -> bytes:
    """Change bytes: cut, flip, insert, double, or remove a piece."""
    if not data:
        return rng.randbytes(rng.randrange(1, 50))
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.randrange(1, 20))
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randrange(1, 8)) + data[at:]
    if kind == 3:
        return data[:end] + data[at:]
    if kind == 4:
        return data[:at] + data[end:]
    return (
        data[:at]
        + rng.choice([b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"]", b'"', b"&a *a", b"\r\n"])
        + data[at:]
    )


def nested(depth: int, kind: str) -> bytes:
    """A JSON text that is nothing but depth: arrays, objects, or both."""
    if kind == "array":
        return b"[" * depth + b"]" * depth
    if kind == "object":
        return b'{"a":' * depth + b"1" + b"}" * depth
    return b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2)


def at(document: Document, place: Place) -> Document:
    for key in place:
        document = document[key]
    return document


def put(document: Document, place: Place, value: Document) -> Document:
    """Set the value at a place and return the document, which is the value itself for the root."""
    if not place:
        return value
    at(document, place[:-1])[place[-1]] = value
    return document


def _replace(document: Document, place: Place, rng: random.Random) -> Document:
    return put(document, place, copy.deepcopy(rng.choice(VALUES)))


def _remove(document: Document, place: Place, rng: random.Random) -> Document:
    if place:
        del at(document, place[:-1])[place[-1]]
    return document


def _add(document: Document, place: Place, rng: random.Random) -> Document:
    value, new = at(document, place), copy.deepcopy(rng.choice(VALUES))
    if isinstance(value, dict):
        value[rng.choice(KEYS)] = new
    elif isinstance(value, list):
        value.insert(rng.randrange(len(value) + 1), new)
    return document


def _double(document: Document, place: Place, rng: random.Random) -> Document:
    """A list element twice, or a value inside a list or map of itself."""
    value = copy.deepcopy(at(document, place))
    if place and isinstance(place[-1], int):
        at(document, place[:-1]).append(value)
        return document
    return put(document, place, rng.choice([[value], {"a": value}, [value, value]]))


def _move(document: Document, place: Place, rng: random.Random) -> Document:
    """The value of another place."""
    return put(document, place, copy.deepcopy(at(document, rng.choice(list(places(document))))))


def _retype(document: Document, place: Place, rng: random.Random) -> Document:
    """The same value as another type."""
    value = at(document, place)
    other: Document
    if isinstance(value, str):
        other = rng.choice([[value], {"": value}, len(value), None])
    elif isinstance(value, bool):
        other = rng.choice([str(value).lower(), int(value), None])
    elif isinstance(value, int | float):
        other = rng.choice([str(value), -value, value * 10**9, value + 0.5, [value]])
    elif isinstance(value, list):
        other = rng.choice([dict(enumerate(map(str, range(len(value))))), "", None, value * 50])
    else:
        other = rng.choice([[value], "", None, 0])
    return put(document, place, other)


_CHANGES: Final[tuple[Callable[[Document, Place, random.Random], Document], ...]] = (
    *(_replace, _replace, _replace, _remove, _add, _add, _double, _move, _retype, _retype),
)
