"""Does a v1 document hold what its schema demands?

Used for one purpose: a restored round trip (``roundtrip``) must not carry values past the schema that the
API server checked. It is no replacement for the API server's validation and produces no messages:
``is_valid`` says yes or no, fast; ``violations`` says where, for the rare document that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from quarterdeck.operators.nodegroup import names

from .rule import DOCUMENTS, KEYWORDS, Holds
from .shape import schema
from .structure import structure_of

Document = dict[str, Any]
Violation = tuple[str, str]
"""Path and the schema keyword that does not hold."""

_ROOTS: Final = ("spec", "status")


def is_valid(document: Document) -> bool:
    """Whether ``spec`` and ``status`` of a v1 document keep every rule of the schema; ``null`` never does."""
    try:
        for root in _ROOTS:
            if root in document:
                msgspec.convert(document[root], _structure(root))
                if not _logic(root)(document[root]):
                    return False
    except msgspec.ValidationError:
        return False
    return True


@cache
def _structure(root: str) -> Any:
    return structure_of(schema(names.V1)["properties"][root], strict=True)


@cache
def _logic(root: str) -> Holds:
    """What a structure cannot say: ``oneOf`` and its kin, wherever they are."""
    return DOCUMENTS.logic(schema(names.V1)["properties"][root]) or (lambda _: True)


def violations(document: Document) -> set[Violation]:
    """Every broken rule of ``spec`` and ``status`` of a v1 document."""
    properties = schema(names.V1)["properties"]
    return {
        found
        for root in _ROOTS
        if root in document
        for found in _broken(properties[root], document[root], root)
    }


def _broken(node: Mapping[str, Any], value: Any, path: str) -> Iterator[Violation]:
    for keyword, rule in node.items():
        if keyword in KEYWORDS and not DOCUMENTS.rule(keyword, rule)(value):
            yield path, keyword
    if type(value) is dict:
        properties = node.get("properties", {})
        for key, item in value.items():
            if key in properties:
                yield from _broken(properties[key], item, f"{path}.{key}")
    elif type(value) is list and "items" in node:
        for index, item in enumerate(value):
            yield from _broken(node["items"], item, f"{path}[{index}]")
