"""ConfigMap: keys, size and immutability."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import config_key_errors
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, same
from quarterdeck.apiserver.metadata import byte_length
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, too_long

SIZE_LIMIT: Final = 1024 * 1024
IMMUTABLE_DATA: Final = "field is immutable when `immutable` is set"


def decoded_size(text: str) -> int:
    """Length of base64 text once decoded."""
    size = len(text) // 4 * 3
    return size - text.count("=", -2) if text else 0


class ConfigMapStrategy(BuiltinStrategy):
    metadata_checks = 4

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        size = 0
        data = obj.get("data") or {}
        binary = obj.get("binaryData") or {}
        for key, value in data.items():
            if found := config_key_errors(key):
                errors += [invalid(f"data[{key}]", key, text) for text in found]
            if key in binary:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += byte_length(value or "")
        for key, value in binary.items():
            if found := config_key_errors(key):
                errors += [invalid(f"binaryData[{key}]", key, text) for text in found]
            size += decoded_size(value or "")
        if size > SIZE_LIMIT:
            errors.append(too_long("[]", SIZE_LIMIT))  # upstream names the whole object so
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        if old.get("immutable"):
            if not obj.get("immutable"):
                errors.append(forbidden("immutable", IMMUTABLE_DATA))
            errors += [
                forbidden(key, IMMUTABLE_DATA)
                for key in ("data", "binaryData")
                if not same(obj.get(key), old.get(key))
            ]
        return errors + self.validate_create(obj, ctx)
