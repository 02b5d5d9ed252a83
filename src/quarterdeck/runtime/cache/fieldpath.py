"""Reading a few fields out of JSON bytes without decoding the rest.

A path is dotted (``spec.nodeName``); ``[*]`` goes through a list (``spec.volumes[*].name``). Paths are
compiled into one msgspec struct, so that all of them cost one pass in C over the document. Everything
about a document may be unexpected: a missing or oddly typed field gives no value, never an error.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.errors import ConfigError

Values: TypeAlias = tuple[str, ...]
"""What one path found in one document, as index values."""

_STEP: Final = re.compile(r"([^.\[\]]+)((?:\[\*\])*)")


def parse_path(path: str) -> tuple[str, ...]:
    """``spec.volumes[*].name`` → ("spec", "volumes", "*", "name"); raises ``ConfigError``."""
    steps: list[str] = []
    for part in path.lstrip(".").split("."):
        found = _STEP.fullmatch(part)
        if found is None:
            raise ConfigError(f"field path {path!r} is not of the form a.b[*].c")
        steps.append(found[1])
        steps += ["*"] * (len(found[2]) // 3)
    return tuple(steps)


class FieldReader:
    """Reads a fixed list of paths; ``base`` are struct fields every document is decoded with as well."""

    def __init__(self, paths: Sequence[str], *, base: Sequence[tuple[str, Any, Any]] = ()) -> None:
        self.paths: Final = tuple(paths)
        parsed = [parse_path(path) for path in self.paths]
        tree: dict[str, Any] = {}
        for steps in parsed:
            branch = tree
            for step in steps:
                branch = branch.setdefault(step, {})
        fixed = {name for name, _, _ in base}
        for name in fixed:
            # The base owns this part of the document; paths below it need a reader of their own.
            tree.pop(name, None)
        self._inside_base: Final = tuple(steps[0] in fixed for steps in parsed)
        kind = _struct(tree, base)
        self.decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(kind).decode
        self._getters: Final = [_getter(steps) for steps in parsed]
        rest = [path for path, inside in zip(self.paths, self._inside_base, strict=True) if inside]
        self._rest: Final = FieldReader(rest) if rest else None

    def values(self, decoded: Any, raw: bytes) -> tuple[Values, ...]:
        """The values of every path, from a document that ``decode`` has read."""
        if self._rest is None:
            return tuple([getter(decoded) for getter in self._getters])
        others = iter(self._rest.read(raw))
        return tuple(
            [
                next(others) if inside else getter(decoded)
                for getter, inside in zip(self._getters, self._inside_base, strict=True)
            ]
        )

    def read(self, raw: bytes) -> tuple[Values, ...]:
        """The values of every path in a document nobody has decoded yet."""
        try:
            return self.values(self.decode(raw), raw)
        except UNREADABLE:
            return tuple([() for _ in self.paths])


_ATTRIBUTE: Final = "f_{}"


def _struct(tree: dict[str, Any], base: Sequence[tuple[str, Any, Any]] = ()) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any, Any]] = [
        (name, kind, msgspec.field(default=default)) for name, kind, default in base
    ]
    for step, below in tree.items():
        kind = _type(below)
        optional = kind if kind is Any else kind | None
        fields.append((_attribute(step), optional, msgspec.field(default=None, name=step)))
    return msgspec.defstruct("Fields", cast("Any", fields), gc=False)


def _type(tree: dict[str, Any]) -> Any:
    if not tree:
        return Any
    if "*" in tree:
        return list[_type(tree["*"])]  # type: ignore[misc]  # a type made at run time
    return _struct(tree)


def _attribute(step: str) -> str:
    """A legal attribute name for any JSON key."""
    return _ATTRIBUTE.format("".join(c if c.isalnum() and c.isascii() else f"_{ord(c)}_" for c in step))


def _text(value: object) -> str | None:
    """A scalar as it is compared in field selectors; containers and null have no text."""
    if type(value) is str:
        return sys.intern(value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        return str(value)
    return None


def _getter(steps: tuple[str, ...]) -> Callable[[Any], Values]:
    names = tuple(_attribute(step) if step != "*" else "*" for step in steps)
    if "*" not in names:

        def single(decoded: Any) -> Values:
            value = decoded
            for name in names:
                value = getattr(value, name, None)
                if value is None:
                    return ()
            text = _text(value)
            return (text,) if text is not None else ()

        return single

    def several(decoded: Any) -> Values:
        found: list[Any] = [decoded]
        for name in names:
            if name == "*":
                found = [item for items in found for item in items]
            else:
                found = [below for value in found if (below := getattr(value, name, None)) is not None]
        texts = [_text(value) for value in found]
        return tuple(dict.fromkeys(text for text in texts if text is not None))

    return several
