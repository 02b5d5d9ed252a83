"""A swagger 2.0 document in the protobuf encoding that kubectl asks for, gnostic's openapi.v2.Document.

`_MESSAGES` holds the numbers and types of gnostic's OpenAPIv2.proto, by JSON key. Members that a message does
not have, or whose value is of another type, are left out: one odd custom schema must not cost clients all
others. Free values (extensions, enums) are YAML text in gnostic, and JSON text is YAML.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

Json: TypeAlias = Mapping[str, Any]
#: The bytes of a value without tag and length; None if the value is not of the type.
_Payload: TypeAlias = Callable[[Any], bytes | None]
#: The bytes of a member of a message, with tags; nothing for proto3's zero values.
_Member: TypeAlias = Callable[[Any], bytes]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EXTENSION: Final = "x-"
_REST: Final = "*"


def encode(document: Json) -> bytes:
    """The document as an openapi.v2.Document."""
    return _message("Document", document)


_PRIMITIVE: Final = (
    "type:string format:string items:PrimitivesItems collectionFormat:string default:Any maximum:double "
    "exclusiveMaximum:bool minimum:double exclusiveMinimum:bool maxLength:int64 minLength:int64 "
    "pattern:string maxItems:int64 minItems:int64 uniqueItems:bool enum:[]Any multipleOf:double "
)
_PARAMETER: Final = "required:bool in:string description:string name:string "
#: Members in the order of their numbers. "[]" is a repeated field, "{}" a message with a list of names and
#: values; "x-" takes the extensions, "*" every other key.
_MESSAGES: Final[dict[str, str]] = {
    "Document": (
        "swagger:string info:Info host:string basePath:string schemes:[]string consumes:[]string "
        "produces:[]string paths:Paths definitions:{}Schema parameters:{}Parameter responses:{}Response "
        "security:[]SecurityRequirement securityDefinitions:{}SecurityDefinitionsItem tags:[]Tag "
        "externalDocs:ExternalDocs x-"
    ),
    "Info": "title:string version:string description:string termsOfService:string contact:Contact "
    "license:License x-",
    "Contact": "name:string url:string email:string x-",
    "License": "name:string url:string x-",
    "Tag": "name:string description:string externalDocs:ExternalDocs x-",
    "ExternalDocs": "description:string url:string x-",
    "Paths": "x- *:PathItem",
    "PathItem": "$ref:string get:Operation put:Operation post:Operation delete:Operation options:Operation "
    "head:Operation patch:Operation parameters:[]ParametersItem x-",
    "Operation": (
        "tags:[]string summary:string description:string externalDocs:ExternalDocs operationId:string "
        "produces:[]string consumes:[]string parameters:[]ParametersItem responses:Responses "
        "schemes:[]string deprecated:bool security:[]SecurityRequirement x-"
    ),
    "JsonReference": "$ref:string description:string",
    "BodyParameter": "description:string name:string in:string required:bool schema:Schema x-",
    "HeaderParameterSubSchema": f"{_PARAMETER}{_PRIMITIVE}x-",
    "FormDataParameterSubSchema": f"{_PARAMETER}allowEmptyValue:bool {_PRIMITIVE}x-",
    "QueryParameterSubSchema": f"{_PARAMETER}allowEmptyValue:bool {_PRIMITIVE}x-",
    "PathParameterSubSchema": f"{_PARAMETER}{_PRIMITIVE}x-",
    "PrimitivesItems": f"{_PRIMITIVE}x-",
    "Responses": "*:ResponseValue x-",
    "Response": "description:string schema:SchemaItem headers:{}Header examples:{}Any x-",
    "Header": f"{_PRIMITIVE}description:string x-",
    "Schema": (
        "$ref:string format:string title:string description:string default:Any multipleOf:double "
        "maximum:double exclusiveMaximum:bool minimum:double exclusiveMinimum:bool maxLength:int64 "
        "minLength:int64 pattern:string maxItems:int64 minItems:int64 uniqueItems:bool maxProperties:int64 "
        "minProperties:int64 required:[]string enum:[]Any additionalProperties:AdditionalPropertiesItem "
        "type:TypeItem items:ItemsItem allOf:[]Schema properties:{}Schema discriminator:string readOnly:bool "
        "xml:Xml externalDocs:ExternalDocs example:Any x-"
    ),
    "Xml": "name:string namespace:string prefix:string attribute:bool wrapped:bool x-",
    "SecurityRequirement": "*:StringArray",
    "BasicAuthenticationSecurity": "type:string description:string x-",
    "ApiKeySecurity": "type:string name:string in:string description:string x-",
}


def _parameter(value: Any) -> bytes | None:
    kind = value.get("in") if isinstance(value, dict) else None
    if kind == "body":
        return _tagged(1, _message("BodyParameter", value))
    if kind not in _NON_BODY:
        return None
    number, name = _NON_BODY[kind]
    return _tagged(2, _tagged(number, _message(name, value)))


_NON_BODY: Final = {
    "header": (1, "HeaderParameterSubSchema"),
    "formData": (2, "FormDataParameterSubSchema"),
    "query": (3, "QueryParameterSubSchema"),
    "path": (4, "PathParameterSubSchema"),
}


def _or_reference(payload: _Payload) -> _Payload:
    """A oneof of something and a JsonReference to it."""

    def write(value: Any) -> bytes | None:
        if isinstance(value, dict) and "$ref" in value:
            return _tagged(2, _message("JsonReference", value))
        found = payload(value)
        return None if found is None else _tagged(1, found)

    return write


def _schema_or_bool(value: Any) -> bytes | None:
    if isinstance(value, bool):
        return _tag(2, _VARINT) + _varint(value)
    return _first(value)


def _first(value: Any) -> bytes | None:
    """A message with nothing but a schema in its first field."""
    return _tagged(1, _message("Schema", value)) if isinstance(value, dict) else None


def _strings(value: Any) -> bytes | None:
    names = value if isinstance(value, list) else [value]
    return b"".join(_tagged(1, name.encode()) for name in names if isinstance(name, str))


def _security_definition(value: Any) -> bytes | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "basic":
        return _tagged(1, _message("BasicAuthenticationSecurity", value))
    return _tagged(2, _message("ApiKeySecurity", value)) if kind == "apiKey" else None


# YAML readers refuse these even inside quotes.
_UNPRINTABLE: Final = re.compile("[\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")


def _any(value: Any) -> bytes | None:
    text = msgspec.json.encode(value).decode()
    if not text.isprintable():
        text = _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _tagged(2, text.encode() + b"\n")


def _message_payload(name: str) -> _Payload:
    return lambda value: _message(name, value) if isinstance(value, dict) else None


_PAYLOADS: Final[dict[str, _Payload]] = {name: _message_payload(name) for name in _MESSAGES} | {
    "string": lambda value: value.encode() if isinstance(value, str) else None,
    "Any": _any,
    "Parameter": _parameter,
    "ParametersItem": _or_reference(_parameter),
    "ResponseValue": _or_reference(_message_payload("Response")),
    "SchemaItem": _first,
    "AdditionalPropertiesItem": _schema_or_bool,
    "ItemsItem": _first,
    "TypeItem": _strings,
    "StringArray": _strings,
    "SecurityDefinitionsItem": _security_definition,
}


def _message(name: str, value: Json) -> bytes:
    members, extension, rest = _PLANS[name]
    parts = []
    for key, item in value.items():
        if item is None:
            continue
        member = members.get(key)
        if member is not None:
            parts.append(member(item))
        elif key.startswith(_EXTENSION):
            if extension is not None:
                parts.append(extension(key, item))
        elif rest is not None:
            parts.append(rest(key, item))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _tagged(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _named(number: int, payload: _Payload) -> Callable[[str, Any], bytes]:
    """A name and a value, as one entry of a repeated field."""
    tag = _tag(number, _BYTES)

    def write(name: str, value: Any) -> bytes:
        content = payload(value)
        if content is None:
            return b""
        entry = _tagged(1, name.encode()) + _tagged(2, content)
        return tag + _varint(len(entry)) + entry

    return write


def _member(number: int, kind: str) -> _Member:
    if kind in _NUMBERS:
        wire, number_bytes = _NUMBERS[kind]
        tag = _tag(number, wire)

        def write_number(value: Any) -> bytes:
            content = number_bytes(value) if value else None
            return b"" if content is None else tag + content

        return write_number
    tag = _tag(number, _BYTES)
    if kind.startswith("{}"):
        entry = _named(1, _PAYLOADS[kind[2:]])

        def write_map(value: Any) -> bytes:
            if not isinstance(value, dict):
                return b""
            content = b"".join([entry(name, item) for name, item in value.items()])
            return tag + _varint(len(content)) + content

        return write_map
    payload = _PAYLOADS[kind.removeprefix("[]")]

    def write(value: Any) -> bytes:
        content = payload(value)
        return b"" if content is None else tag + _varint(len(content)) + content

    if kind.startswith("[]"):
        return lambda value: b"".join([write(item) for item in value]) if isinstance(value, list) else b""
    return write


def _bool(value: Any) -> bytes | None:
    return b"\x01" if value is True else None


def _double(value: Any) -> bytes | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return struct.pack("<d", float(value))
    except OverflowError:
        return None


def _int64(value: Any) -> bytes | None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        return None
    return _varint(value & 0xFFFFFFFFFFFFFFFF)


_NUMBERS: Final[dict[str, tuple[int, _Payload]]] = {
    "bool": (_VARINT, _bool),
    "double": (_FIXED64, _double),
    "int64": (_VARINT, _int64),
}


class _Plan(NamedTuple):
    members: dict[str, _Member]
    extension: Callable[[str, Any], bytes] | None
    rest: Callable[[str, Any], bytes] | None


def _plan(fields: str) -> _Plan:
    members: dict[str, _Member] = {}
    extension = rest = None
    for number, field in enumerate(fields.split(), start=1):
        key, _, kind = field.partition(":")
        if key == _EXTENSION:
            extension = _named(number, _any)
        elif key == _REST:
            rest = _named(number, _PAYLOADS[kind])
        else:
            members[key] = _member(number, kind)
    return _Plan(members, extension, rest)


_PLANS: Final = {name: _plan(fields) for name, fields in _MESSAGES.items()}
