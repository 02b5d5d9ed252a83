"""Protobuf bodies against what Go's encoders make of the same objects.

``protobuf_bodies.json`` holds, per object, the body that Kubernetes' protobuf serializer wrote and the
document that its JSON encoder wrote.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.document.protobuf import MAGIC, MAX_DEPTH, ProtobufError, decode

BODIES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "protobuf_bodies.json").read_text())


def body_of(name: str) -> bytes:
    return base64.b64decode(BODIES[name]["body"])


def without_nulls(value: Any) -> Any:
    """Go prints null for lists and times that are not set; in a request they mean the same as nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    result = b""
    while value > 0x7F:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


@pytest.mark.parametrize("name", BODIES)
def test_decodes_to_what_gos_json_encoder_prints(name: str) -> None:
    assert decode(body_of(name)) == without_nulls(BODIES[name]["object"])


def test_numbers_keep_their_json_type() -> None:
    schema = decode(body_of("crd"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["e"]
    assert [type(schema[key]) for key in ("maximum", "minimum")] == [float, int]


def test_a_pointer_keeps_its_zero_value() -> None:
    assert decode(body_of("deployment"))["spec"]["replicas"] == 0


def test_an_unknown_field_number_is_skipped() -> None:
    raw = field(1, field(1, b"a")) + field(4000, b"later") + varint(4001 << 3) + b"\x05"
    assert decode(envelope("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
    }


def test_packed_numbers_are_read_like_single_ones() -> None:
    security = field(4, b"\x05\x07") + b"\x20\x09"
    raw = field(2, field(14, security))
    assert decode(envelope("v1", "Pod", raw))["spec"]["securityContext"]["supplementalGroups"] == [5, 7, 9]


def test_a_message_that_comes_twice_is_merged() -> None:
    raw = field(1, field(1, b"a")) + field(1, field(3, b"n"))
    assert decode(envelope("v1", "ConfigMap", raw))["metadata"] == {"name": "a", "namespace": "n"}


def test_delete_options_are_known_in_every_group_version() -> None:
    assert decode(envelope("example.com/v1", "DeleteOptions", b"\x08\x05"))["gracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "prefix"),
        (b'{"kind":"Pod"}', "prefix"),
        (MAGIC, "does not name"),
        (envelope("v1", "Widget", b""), 'no kind "Widget" is registered for version "v1"'),
        (envelope("v1", "ConfigMap", b"\x0a\x05ab"), "middle of a field"),
        (envelope("v1", "ConfigMap", b"\x0a"), "middle of a number"),
        (envelope("v1", "ConfigMap", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "too long"),
        (envelope("v1", "ConfigMap", b"\x08\x01"), "wire type 0 instead of 2"),
        (envelope("v1", "ConfigMap", b"\x0b\x0c"), "unsupported wire type 3"),
        (envelope("v1", "ConfigMap", b"\x02\x00"), "illegal field number 0"),
        (envelope("v1", "ConfigMap", field(1, field(8, b"\x08" + b"\xff" * 8 + b"\x7f"))), "out of range"),
        (envelope("apps/v1", "ControllerRevision", field(2, field(1, b"{"))), "JSON inside"),
        (MAGIC + field(3, b"gzip"), "content encoding"),
    ],
)
def test_malformed_input_is_named(body: bytes, text: str) -> None:
    with pytest.raises(ProtobufError, match=text):
        decode(body)


def test_deep_nesting_is_refused_and_less_is_not() -> None:
    def nested(levels: int) -> bytes:
        schema = b""
        for _ in range(levels):
            schema = field(28, schema)  # JSONSchemaProps.not
        raw = field(2, field(7, field(4, field(1, schema))))
        return envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw)

    decode(nested(MAX_DEPTH - 10))
    with pytest.raises(ProtobufError, match="nested"):
        decode(nested(MAX_DEPTH))


@pytest.mark.parametrize("name", BODIES)
def test_a_body_cut_off_anywhere_is_an_error_or_an_object(name: str) -> None:
    body = body_of(name)
    for length in range(len(body)):
        with contextlib.suppress(ProtobufError):
            assert isinstance(decode(body[:length]), dict)


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(BODIES)))
def test_changed_bytes_never_break_the_decoder(seed: int, name: str) -> None:
    chance = random.Random(seed)
    body = bytearray(body_of(name))
    for _ in range(chance.randrange(1, 6)):
        body[chance.randrange(len(body))] = chance.randrange(256)
    with contextlib.suppress(ProtobufError):
        json.dumps(decode(bytes(body)))
