"""Request bodies turned into JSON documents: JSON, YAML and protobuf, with Go's error texts.

Duplicate keys are found here because no later step can see them. Everything the parser accepts
is plain dicts, lists, strings, numbers, booleans and None.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import yaml

from quarterdeck.api.manifest import ManifestLoader
from quarterdeck.apiserver import status
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gonumber import float_text

from . import nesting

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
#: a YAML document may refer to parts of itself; expanded it must stay below this many nodes
_YAML_NODE_LIMIT = 500_000
#: nested block sequences and keys may begin on one line: "- - - a"
_YAML_INDICATORS = re.compile(rb"^[ ?-]{1000,}", re.MULTILINE)

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"


class ParseError(QuarterdeckError, ValueError):
    """The body is not a document; the text is Go's."""


class HugeNumber(float):
    """A number beyond what a double holds. Fields that nobody knows may have it; all others refuse it."""

    text = ""

    @classmethod
    def of(cls, text: str) -> HugeNumber:
        made = cls("inf")
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


class BeyondDouble(ParseError):
    """There is a number in a JSON text that no double holds; `document` has it as a `HugeNumber`."""

    def __init__(self, number: HugeNumber, document: Any) -> None:
        super().__init__(f"json: cannot unmarshal number {number} into Go value of type float64")
        self.document = document


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def parse_json(body: bytes, *, repairs: bool = True) -> Any:
    """A JSON text; `repairs`: characters that are none are replaced, as Go's JSON decoder does."""
    if bracket := nesting.too_deep(body, nesting.MAX_DEPTH):
        raise ParseError(f"invalid character '{bracket}' exceeded max depth")
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError):  # a number of more digits than Python reads, too
        with suppress(msgspec.DecodeError, ValueError):
            if repairs:
                return _decode(_repaired(body))
        document = None
        with suppress(ValueError, RecursionError):
            document = json.loads(_repaired(body), parse_int=_integer, parse_float=_double)
        if (number := huge_number(document)) is not None:
            raise BeyondDouble(number, document) from None
        raise ParseError(go_json_error(body)) from None
    except RecursionError:
        raise ParseError("exceeded max depth") from None


def check_range(body: bytes, document: Any) -> None:
    """Raises BeyondDouble for integers that Python reads and a double does not hold."""
    if _MANY_DIGITS.search(body) and (number := huge_number(document)) is not None:
        raise BeyondDouble(number, document)


_MANY_DIGITS = re.compile(rb"[0-9]{309}")


def huge_number(document: Any) -> HugeNumber | None:
    """The first number of a document that no double holds."""
    stack = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, HugeNumber):
            return node
        elif type(node) is int and abs(node) >= _NO_DOUBLE:
            return HugeNumber.of(str(node))
    return None


_NO_DOUBLE = 2**1024 - 2**970
"""The least integer that does not round to a double."""


def _integer(text: str) -> int | HugeNumber:
    if len(text) > 400:
        return HugeNumber.of(text)
    return int(text)


def _double(text: str) -> float:
    value = float(text)
    return HugeNumber.of(text) if math.isinf(value) else value


_SURROGATES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def _repaired(body: bytes) -> str:
    """The text as Go reads it: broken UTF-8, byte by byte, and lone surrogates are replacement characters."""
    text = body.decode("utf-8", "surrogateescape").translate(_BROKEN_BYTES)
    return _SURROGATES.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


#: bytes that are no UTF-8, as Python's decoder keeps them
_BROKEN_BYTES = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")


def parse_yaml(body: bytes) -> Any:
    _check_yaml_depth(body)
    try:
        # what follows the first document is not looked at, as by Go
        document = next(yaml.load_all(body, Loader=ManifestLoader), None)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark is not None else 0
        if line and isinstance(error, yaml.scanner.ScannerError):
            line += 1  # Go's scanner counts from one, its parser from zero
        where = f"line {line}: " if line else ""
        raise ParseError(f"yaml: {where}{error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ParseError(f"yaml: {' '.join(str(error).split())}") from None
    if b"*" in body:
        _check_expansion(document)
    try:
        return _string_keys(document) if isinstance(document, dict | list) else document
    except RecursionError:
        raise ParseError(f"yaml: exceeded max depth of {nesting.depth_limit()}") from None


def yaml_duplicates(body: bytes) -> list[str]:
    """What Go's YAML library says about keys that occur twice in one mapping, in document order."""
    try:
        root = yaml.compose(body, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return []
    found: list[str] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in seen:
                    found.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen.add(key.value)
            stack += [value for _, value in reversed(node.value)]
        elif isinstance(node, yaml.SequenceNode):
            stack += reversed(node.value)
    return found


def in_document_order(body: bytes, unknown: Collection[str]) -> list[tuple[str, bool]]:
    """(path, whether it is a duplicate) of the unknown and the repeated keys of a JSON text as they come."""
    pairs = json.loads(body, object_pairs_hook=_Pairs)
    return [(path, is_repeated) for path, is_repeated in _walk(pairs) if is_repeated or path in unknown]


def _check_yaml_depth(body: bytes) -> None:
    """Refuse nesting that would overflow the C stack of the YAML parser, before it sees the text."""
    limit = nesting.depth_limit()
    if nesting.too_deep(body, limit) or any(
        indicators[0].count(b"-") + indicators[0].count(b"?") > limit
        for indicators in _YAML_INDICATORS.finditer(body)
    ):
        raise ParseError(f"yaml: exceeded max depth of {limit}")


def duplicate_fields(body: bytes, document: Any) -> list[str]:
    """Paths of keys that occur twice in one JSON object, in document order (`spec.size`)."""
    # a compact body re-encodes to its own length unless a key was given twice
    stripped = body.strip()
    if len(_encode(document)) == len(stripped):
        return []
    try:
        pairs = json.loads(stripped, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []
    return [path for path, is_repeated in _walk(pairs) if is_repeated]


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they stand in the text."""


def _walk(document: Any) -> Iterator[tuple[str, bool]]:
    """Every key of a document: its path and whether it was there before; not recursive."""
    stack = [_members(document, "")]
    while stack:
        for where, value, is_repeated in stack[-1]:
            if is_repeated is not None:
                yield where, is_repeated
            if isinstance(value, list):
                stack.append(_members(value, where))
                break
        else:
            stack.pop()


def _members(node: Any, path: str) -> Iterator[tuple[str, Any, bool | None]]:
    """(path, value, whether the key was there before; None for the items of a list)."""
    if isinstance(node, _Pairs):
        seen: set[str] = set()
        for key, value in node:
            yield f"{path}.{key}" if path else key, value, key in seen
            seen.add(key)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield f"{path}[{index}]", value, None


def _check_expansion(document: Any) -> None:
    count = 0
    stack = [document]
    while stack:
        node = stack.pop()
        count += 1
        if count > _YAML_NODE_LIMIT:
            raise ParseError("yaml: document contains excessive aliasing")
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


_FRACTIONS = re.compile(rb"\d(?:\.\d|[eE])")


def with_integers(body: bytes, document: Any) -> Any:
    """A document read from JSON as it were from YAML: there, 1.0 is 1."""
    return _string_keys(document) if _FRACTIONS.search(body) else document


def _string_keys(node: Any) -> Any:
    """JSON has string keys only; YAML's numbers and booleans turn into their text."""
    if type(node) is float:
        if not math.isfinite(node):
            raise ParseError(f"json: unsupported value: {float_text(node)}")
        return int(node) if node.is_integer() and abs(node) < 1e15 else node
    if isinstance(node, dict):
        return {_key(key): _string_keys(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_string_keys(value) for value in node]
    if isinstance(node, bytes):
        return node.decode("utf-8", "replace")
    return node


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


_GO_CONTEXT = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}


def go_json_error(body: bytes) -> str:
    """What Go's encoding/json says about a malformed text."""
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        position = error.pos
        if error.msg.startswith("Unterminated string") or not text[position:].strip():
            return "unexpected end of JSON input"
        while text[position].isspace():
            position += 1
        literal = _broken_literal(text, position)
        if literal:
            return literal
        char = text[position]
        shown = "'\\''" if char == "'" else "'\"'" if char == '"' else f"'{char}'"
        for known, context in _GO_CONTEXT.items():
            if error.msg.startswith(known):
                return f"invalid character {shown} {context}"
        inside = text[:position].rstrip()
        context = "after array element" if _open_bracket(inside) == "[" else "after object key:value pair"
        return f"invalid character {shown} {context}"
    except (RecursionError, ValueError) as error:
        if isinstance(error, RecursionError):
            return "exceeded max depth"
    found = _HUGE_NUMBER.search(text)  # nothing else is well-formed and yet not read
    shown = found[0] if found else ""
    return f"json: cannot unmarshal number {shown} into Go value of type float64"


_HUGE_NUMBER = re.compile(r"-?[0-9.]+[eE]\+?[0-9]{3,}|-?[0-9]{309,}")


def _broken_literal(text: str, position: int) -> str:
    """A text that begins like true, false or null and goes on otherwise."""
    for word in ("true", "false", "null"):
        if text[position] != word[0]:
            continue
        for index, expected in enumerate(word):
            found = text[position + index : position + index + 1]
            if not found:
                return "unexpected end of JSON input"
            if found != expected:
                return f"invalid character '{found}' in literal {word} (expecting '{expected}')"
    return ""


def _open_bracket(text: str) -> str:
    """The innermost bracket still open at the end of a text that is valid so far."""
    stack: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            stack.append(char)
        elif char in "]}" and stack:
            stack.pop()
    return stack[-1] if stack else ""


def unrecognized(kind: str, why: str, body: bytes) -> status.StatusError:
    """400 for a body that cannot be decoded at all, with its beginning."""
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_beginning(body)})"
    )


def _beginning(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    if body[:1] == b"{":
        return body[:30].decode("utf-8", "replace") + more
    return body[:30].hex() + more
