"""A CRD's spec in upstream's internal form.

Upstream keeps what all versions have in common once, above the versions, and its field paths show it:
`spec.validation.openAPIV3Schema...` if all versions have the same schema (or there is only one),
`spec.versions[0].schema.openAPIV3Schema...` otherwise; subresources, printer columns and selectable
fields alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.schema import rules
from quarterdeck.apiserver.schema.lenient import items_of
from quarterdeck.wire.fielderror import FieldError, not_supported, required
from quarterdeck.wire.jsonvalue import same


class InternalSpec:
    """A spec whose versions have lost what they share: that is in `shared`, by its key in a version."""

    KEYS: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")

    def __init__(self, raw: object) -> None:
        self.raw: Json = raw if isinstance(raw, dict) else {}
        self.names: Json = struct(self.raw, "names")
        originals = [item for item in items_of(self.raw, "versions") if isinstance(item, dict)]
        self.versions: list[Json] = [dict(version) for version in originals]
        self.shared: Json = {}
        for key in self.KEYS:
            values = [version.get(key) for version in originals]
            if key not in ("schema", "subresources"):  # an empty list is no list
                values = [value or None for value in values]
            if values and all(same(value, values[0]) for value in values):
                if values[0] is not None:
                    self.shared[key] = values[0]
                for version in self.versions:
                    version.pop(key, None)

    @property
    def preserves_unknown(self) -> bool:
        return self.raw.get("preserveUnknownFields") is True

    def schemas(self) -> list[tuple[str, Json]]:
        """All openAPIV3Schemas with their paths."""
        found = []
        if "schema" in self.shared:
            found.append(("spec.validation.openAPIV3Schema", dig(self.shared, "schema", "openAPIV3Schema")))
        for index, version in enumerate(self.versions):
            if version.get("schema") is not None:
                path = f"spec.versions[{index}].schema.openAPIV3Schema"
                found.append((path, dig(version, "schema", "openAPIV3Schema")))
        return [(path, schema) for path, schema in found if isinstance(schema, dict)]

    def has(self, test: Callable[[Json], bool]) -> bool:
        """Whether some node of some schema passes a test."""
        return any(test(node) for _, schema in self.schemas() for node in rules.all_schemas(schema))


def dig(value: object, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def struct(value: Mapping[str, Any], key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def enum_errors(path: str, value: str, allowed: Sequence[str]) -> Iterator[FieldError]:
    """For a field that takes one of some words."""
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)
