"""All generators with their weights.

A generator makes one request that a server must survive, from a random source and the corpus alone, so that
a finding can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from . import address, body, definition, patch
from .client import Request
from .corpus import Corpus

Generator = Callable[[random.Random, Corpus], Request]

GENERATORS: Final[dict[str, tuple[int, Generator]]] = {
    "mutated": (14, body.mutated),
    "mistyped": (14, body.mistyped),
    "misdirected": (6, body.misdirected),
    "malformed_json": (5, body.malformed_json),
    "malformed_yaml": (3, body.malformed_yaml),
    "yaml_bomb": (1, body.yaml_bomb),
    "malformed_protobuf": (5, body.malformed_protobuf),
    "oversized": (1, body.oversized),
    "almost_oversized": (1, body.almost_oversized),
    "deep": (2, body.deep),
    "selector": (6, address.selector),
    "query": (8, address.query),
    "crd": (5, definition.crd),
    "cel": (4, definition.cel),
    "pattern": (2, definition.pattern),
    "regex_input": (3, definition.regex_input),
    "json_patch": (5, patch.json_patch),
    "merge_patch": (8, patch.merge_patch),
    "target": (5, definition.target),
    "path": (5, address.path),
    "accept": (4, address.accept),
    "identity": (3, address.identity),
    "stranger": (1, address.stranger),
    "review": (3, address.review),
    "metadata": (4, body.metadata),
}
