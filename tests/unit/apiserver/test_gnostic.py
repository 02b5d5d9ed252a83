"""The protobuf form of the OpenAPI v2 document, read back with a small reader and compared with the JSON."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from quarterdeck.apiserver.builtins import builtin_resources
from quarterdeck.apiserver.discovery import gnostic
from quarterdeck.apiserver.discovery.openapi import OpenApi
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage.store import Store
from quarterdeck.wire.http import Request, Response

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Fields = dict[int, list[Any]]


def read(body: bytes) -> Fields:
    found: Fields = {}
    for number, value in _fields(body):
        found.setdefault(number, []).append(value)
    return found


def _fields(body: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(body, at)
            yield tag >> 3, value
        elif wire == 1:
            yield tag >> 3, struct.unpack_from("<d", body, at)[0]
            at += 8
        else:
            assert wire == 2
            length, at = _varint(body, at)
            assert at + length <= len(body)
            yield tag >> 3, body[at : at + length]
            at += length


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def text(value: bytes) -> str:
    return value.decode()


def any_of(value: bytes) -> Any:
    (found,) = read(value)[2]
    return yaml.safe_load(found.decode())


def named(entries: list[bytes]) -> list[tuple[str, bytes]]:
    result = []
    for entry in entries:
        fields = read(entry)
        result.append((text(fields[1][0]), fields[2][0]))
    return result


def extensions(fields: Fields, number: int) -> dict[str, Any]:
    return {name: any_of(value) for name, value in named(fields.get(number, []))}


# Numbers as in gnostic's OpenAPIv2.proto, apart from the ones in the module.
SCHEMA_STRINGS = {1: "$ref", 2: "format", 3: "title", 4: "description", 13: "pattern", 26: "discriminator"}
SCHEMA_DOUBLES = {6: "multipleOf", 7: "maximum", 9: "minimum"}
SCHEMA_BOOLS = {8: "exclusiveMaximum", 10: "exclusiveMinimum", 16: "uniqueItems", 27: "readOnly"}
SCHEMA_INTS = {
    11: "maxLength",
    12: "minLength",
    14: "maxItems",
    15: "minItems",
    17: "maxProperties",
    18: "minProperties",
}


def schema_of(body: bytes) -> dict[str, Any]:
    fields = read(body)
    result = extensions(fields, 31)
    for number, name in SCHEMA_STRINGS.items():
        if number in fields:
            result[name] = text(fields[number][0])
    for number, name in SCHEMA_DOUBLES.items():
        if number in fields:
            assert isinstance(fields[number][0], float)
            result[name] = fields[number][0]
    for number, name in SCHEMA_BOOLS.items():
        if number in fields:
            result[name] = fields[number][0] == 1
    for number, name in SCHEMA_INTS.items():
        if number in fields:
            result[name] = fields[number][0]
    for number, name in {5: "default", 30: "example"}.items():
        if number in fields:
            result[name] = any_of(fields[number][0])
    if 19 in fields:
        result["required"] = [text(name) for name in fields[19]]
    if 20 in fields:
        result["enum"] = [any_of(value) for value in fields[20]]
    if 21 in fields:
        extra = read(fields[21][0])
        result["additionalProperties"] = schema_of(extra[1][0]) if 1 in extra else extra[2][0] == 1
    if 22 in fields:
        types = [text(name) for name in read(fields[22][0])[1]]
        result["type"] = types[0] if len(types) == 1 else types
    if 23 in fields:
        (items,) = read(fields[23][0])[1]
        result["items"] = schema_of(items)
    if 24 in fields:
        result["allOf"] = [schema_of(part) for part in fields[24]]
    if 25 in fields:
        properties = named(read(fields[25][0]).get(1, []))
        result["properties"] = {name: schema_of(value) for name, value in properties}
    return result


def parameter_of(body: bytes) -> dict[str, Any]:
    (parameter,) = read(body)[1]
    fields = read(parameter)
    if 1 in fields:
        body_parameter = read(fields[1][0])
        return {
            "name": text(body_parameter[2][0]),
            "in": text(body_parameter[3][0]),
            "required": body_parameter[4] == [1],
            "schema": schema_of(body_parameter[5][0]),
        }
    (query,) = read(fields[2][0])[3]
    found = read(query)
    return {
        "in": text(found[2][0]),
        "name": text(found[4][0]),
        "type": text(found[6][0]),
        "uniqueItems": found[20] == [1],
    }


def operation_of(body: bytes) -> dict[str, Any]:
    fields = read(body)
    result = extensions(fields, 13)
    if 7 in fields:
        result["consumes"] = [text(each) for each in fields[7]]
    if 8 in fields:
        result["parameters"] = [parameter_of(each) for each in fields[8]]
    result["responses"] = {}
    for code, value in named(read(fields[9][0])[1]):
        response = read(read(value)[1][0])
        result["responses"][code] = {
            "description": text(response[1][0]),
            "schema": schema_of(read(response[2][0])[1][0]),
        }
    return result


VERBS = {2: "get", 3: "put", 4: "post", 5: "delete", 8: "patch"}


def document_of(body: bytes) -> dict[str, Any]:
    fields = read(body)
    info = read(fields[2][0])
    return {
        "swagger": text(fields[1][0]),
        "info": {"title": text(info[1][0]), "version": text(info[2][0])},
        "paths": {
            path: {VERBS[number]: operation_of(value[0]) for number, value in read(item).items()}
            for path, item in named(read(fields[8][0])[2])
        },
        "definitions": {name: schema_of(value) for name, value in named(read(fields[9][0])[1])},
    }


@pytest.fixture(scope="module")
def table() -> Iterator[ResourceTable]:
    table, store = ResourceTable(), Store()
    for resource in builtin_resources(store):
        table.add_builtin(resource)
    yield table
    asyncio.run(store.close())


@pytest.fixture(scope="module")
def openapi(table: ResourceTable) -> OpenApi:
    return OpenApi(table, "v1.36.0")


def ask(openapi: OpenApi, accept: str | None, **headers: str) -> Response:
    given = headers if accept is None else {"accept": accept, **headers}
    response = openapi.serve(Request("GET", "/openapi/v2", "", given, b""))
    assert response is not None
    return response


def encoded(schema: dict[str, Any]) -> dict[str, Any]:
    info = {"title": "t", "version": "v"}
    document = document_of(
        gnostic.encode({"swagger": "2.0", "info": info, "paths": {"/": {}}, "definitions": {"a": schema}})
    )
    found: dict[str, Any] = document["definitions"]["a"]
    return found


def test_the_whole_document_says_what_the_json_says(openapi: OpenApi) -> None:
    wanted = msgspec.json.decode(ask(openapi, None).body_bytes())
    assert len(wanted["definitions"]) > 500
    assert document_of(ask(openapi, ASKED).body_bytes()) == wanted


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1, "maximum": 2.5, "exclusiveMaximum": True, "multipleOf": 0.5},
        {"type": "integer", "minimum": -3},
        {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^é$", "format": "f", "title": "t"},
        {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 2,
            "maxItems": 1 << 40,
            "uniqueItems": True,
        },
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/a"}},
        {"type": "object", "properties": {}},
        {"type": ["string", "null"], "enum": ["a", 1, None, True, {"b": [1.5]}]},
        {"properties": {"x-a": {"type": "string"}, "$ref": {"type": "string"}}, "required": ["x-a", "$ref"]},
        {"example": {"a": 'quo"te\n'}, "default": [], "allOf": [{"type": "object"}], "readOnly": True},
        {
            "x-a": "yes",
            "x-b": True,
            "x-c": ["1", "0x1", "~", ""],
            "x-d": {"k: v": "- a #"},
            "x-e": "\x7f\x80😀",
        },
    ],
)
def test_members_of_a_schema(schema: dict[str, Any]) -> None:
    assert encoded(schema) == schema


def test_zero_values_are_left_out_as_proto3_does() -> None:
    assert encoded({"minimum": 0, "maxLength": 0, "uniqueItems": False, "type": "string"}) == {
        "type": "string"
    }


def test_what_the_message_cannot_say_is_left_out() -> None:
    odd = {
        "nullable": True,
        "anyOf": [{"type": "string"}],
        "maximum": 10**400,
        "minLength": 1 << 64,
        "maxItems": "3",
        "description": 5,
        "properties": [],
        "items": "no",
        "required": "a",
        "format": None,
        "type": "string",
    }
    assert encoded(odd) == {"type": "string"}


def test_nesting_as_deep_as_the_server_admits() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert encoded(schema) == schema


def test_references_and_top_level_parameters() -> None:
    body = gnostic.encode(
        {
            "paths": {"/a": {"get": {"parameters": [{"$ref": "#/parameters/p"}], "responses": {}}}},
            "parameters": {"p": {"name": "namespace", "in": "path", "required": True, "type": "string"}},
            "securityDefinitions": {"t": {"type": "apiKey", "name": "authorization", "in": "header"}},
            "security": [{"t": []}],
        }
    )
    fields = read(body)
    (path,) = read(fields[8][0])[2]
    operation = read(read(read(path)[2][0])[2][0])
    assert read(read(operation[8][0])[2][0]) == {1: [b"#/parameters/p"]}
    ((name, parameter),) = named(read(fields[10][0])[1])
    assert name == "p"
    assert read(read(read(parameter)[2][0])[4][0]) == {
        1: [1],
        2: [b"path"],
        4: [b"namespace"],
        5: [b"string"],
    }
    ((_, scheme),) = named(read(fields[13][0])[1])
    assert read(read(scheme)[2][0]) == {1: [b"apiKey"], 2: [b"authorization"], 3: [b"header"]}
    assert named(read(fields[12][0])[1]) == [("t", b"")]


def test_patch_operations_name_their_kind_types_and_parameters(openapi: OpenApi) -> None:
    document = document_of(ask(openapi, ASKED).body_bytes())
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}


def test_definitions_carry_kinds_and_merge_keys(openapi: OpenApi) -> None:
    definitions = document_of(ask(openapi, ASKED).body_bytes())["definitions"]
    deployment = definitions["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "version": "v1", "kind": "Deployment"}
    ]
    containers = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    groups = definitions["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"][
        "x-kubernetes-group-version-kind"
    ]
    assert {("", "v1"), ("apps", "v1"), ("batch", "v1")} <= {
        (each["group"], each["version"]) for each in groups
    }


def test_quantities_are_strings(openapi: OpenApi) -> None:
    definitions = document_of(ask(openapi, ASKED).body_bytes())["definitions"]
    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"] == "string"


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json;q=0", "application/json"),
        ("application/json;as=Table", "application/json"),
        (ASKED, ANSWERED),
        (ANSWERED, ANSWERED),
        (f"{ASKED},application/json", ANSWERED),
        (f"application/json,{ASKED}", "application/json"),
        (f"{ASKED};q=0.5,application/json", "application/json"),
        (f"*/*,{ASKED}", ANSWERED),
    ],
)
def test_negotiation(openapi: OpenApi, accept: str | None, answered: str) -> None:
    response = ask(openapi, accept)
    assert (response.status, response.content_type) == (200, answered)


@pytest.mark.parametrize("accept", ["text/html", "application/yaml", "application/vnd.foo", ";", "a/b;q=x"])
def test_nothing_acceptable(openapi: OpenApi, accept: str) -> None:
    assert ask(openapi, accept).status == 406


def test_is_encoded_once_per_generation_and_on_demand(
    table: ResourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    encode = gnostic.encode

    def counted(document: gnostic.Json) -> bytes:
        calls.append(1)
        return encode(document)

    monkeypatch.setattr(gnostic, "encode", counted)
    fresh = OpenApi(table, "v1.36.0")
    ask(fresh, None)
    assert calls == []
    first = ask(fresh, ASKED)
    assert ask(fresh, ASKED).body is first.body
    assert calls == [1]
    table.replace_custom([], [])
    assert ask(fresh, ASKED).body == first.body
    assert calls == [1, 1]


def test_answers_have_a_digest(openapi: OpenApi) -> None:
    headers = dict(ask(openapi, ASKED).headers)
    assert headers["Vary"] == "Accept"
    assert ask(openapi, ASKED, **{"if-none-match": headers["ETag"]}).status == 304
    assert ask(openapi, ASKED, **{"if-none-match": '"other"'}).status == 200
