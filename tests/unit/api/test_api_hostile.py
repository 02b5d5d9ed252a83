"""Bytes that are no JSON, no UTF-8, or nested without end: a ``SchemaError``, never anything else."""

from __future__ import annotations

import pytest

from quarterdeck.api import DynamicObject, decode
from quarterdeck.api.codec import decode_json
from quarterdeck.errors import SchemaError

from .widget import Widget

DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
BAD = [
    b"",
    b"{",
    b"\xff\xfe",
    b'{"kind":"Widget","metadata":{"name":"\xff"}}',
    b'{"kind":"Widget","other":"\xc3("}',
    DEEP,
    b"[" * 100_000,
    b'{"kind":"Widget","metadata":{"name":"a"},"other":' + DEEP + b"}",
    b'{"kind":"Widget","spec":' + DEEP + b"}",
]


@pytest.mark.parametrize("raw", BAD, ids=range(len(BAD)))
def test_unreadable_bytes_are_a_schema_error(raw: bytes) -> None:
    with pytest.raises(SchemaError):
        decode(raw, Widget)
    with pytest.raises(SchemaError):
        decode_json(raw)
    with pytest.raises(SchemaError):
        DynamicObject.from_bytes(raw)
