"""Secret: stringData, types with required keys, immutability."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import config_key_errors
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable, same, text_at
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required, too_long

from .configmap import IMMUTABLE_DATA, SIZE_LIMIT, decoded_size

SERVICE_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_DOCKER_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


class SecretStrategy(BuiltinStrategy):
    metadata_checks = 4

    selectable_fields = {"type": text_at("type")}  # noqa: RUF012 # never changed

    def default(self, obj: Json) -> None:
        if "stringData" in obj:
            plain = obj.pop("stringData")
            if plain:
                data = obj.get("data")
                if data is None:
                    data = obj["data"] = {}
                for key, value in plain.items():
                    data[key] = base64.b64encode((value or "").encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        data: Json = obj.get("data") or {}
        size = 0
        for key, value in data.items():
            if found := config_key_errors(key):
                errors += [invalid(f"data[{key}]", key, text) for text in found]
            size += decoded_size(value or "")
        if size > SIZE_LIMIT:
            errors.append(too_long("data", SIZE_LIMIT))
        kind = obj.get("type")
        if kind and kind != "Opaque":
            errors += _validate_type(kind, data, obj.get("metadata") or {})
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = immutable(obj.get("type"), old.get("type"), "type")
        if old.get("immutable"):
            if not obj.get("immutable"):
                errors.append(forbidden("immutable", IMMUTABLE_DATA))
            if not same(obj.get("data"), old.get("data")):
                errors.append(forbidden("data", IMMUTABLE_DATA))
        return errors + self.validate_create(obj, ctx)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        if obj.get("type") != "kubernetes.io/tls":
            return []
        data = obj.get("data") or {}
        for key, name in (("tls.crt", "certificate"), ("tls.key", "key")):
            try:
                text = base64.b64decode(data.get(key) or "")
            except binascii.Error:
                text = b""
            if b"-----BEGIN " not in text:
                return [f"tls: failed to find any PEM data in {name} input"]
        return []


def _validate_type(kind: str, data: Json, meta: Json) -> list[FieldError]:
    if kind == "kubernetes.io/service-account-token":
        if not (meta.get("annotations") or {}).get(SERVICE_ACCOUNT_NAME):
            return [required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")]
    elif kind in _DOCKER_KEYS:
        key = _DOCKER_KEYS[kind]
        if key not in data:
            return [required(f"data[{key}]")]
        if problem := _json_object_problem(data[key]):
            return [invalid(f"data[{key}]", "<secret contents redacted>", problem)]
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            return [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [required("data[ssh-privatekey]")]
    elif kind == "kubernetes.io/tls":
        return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _json_object_problem(encoded: str | None) -> str:
    """What Go's json.Unmarshal into a map says about the decoded value; "" when it is an object."""
    try:
        raw = base64.b64decode(encoded or "")
    except binascii.Error:
        raw = b""
    if not raw.strip():
        return "unexpected end of JSON input"
    try:
        value: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        char = raw.lstrip()[:1].decode("latin-1")
        if char and char not in '{["tfn-0123456789':
            return f"invalid character '{char}' looking for beginning of value"
        return "unexpected end of JSON input"
    if isinstance(value, dict) or value is None:
        return ""
    names = {str: "string", bool: "bool", list: "array"}
    found = names.get(type(value), "number")
    return f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
