"""Objects with one very long list: for every list and map of every kind that a server lets one create.

What there is to know about a kind is read from the server's own OpenAPI documents. The objects are rarely
valid: finding out that two thousand elements are wrong, and saying so, has to be as cheap as storing them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .client import Client

Json = dict[str, Any]

ELEMENTS: Final = 2_000
LARGEST_BODY: Final = 2_800_000
"""Bytes; a server takes three mebibytes. Elements that are too large for that are fewer."""
_DEEP: Final = 3
"""Levels below an element that are filled in."""
_NUMBER: Final = 24681357
"""Stands for the number of an element."""
_HERE: Final = "the elements"
_TEXTS: Final = {"date-time": "2001-01-01T00:00:00Z", "byte": "YWJj", "duration": "1s"}
_OF_POD: Final = re.compile(r".*(?:\btemplate\.spec|\bpodSpec)\.(.+)")
_LOOKED_UP: Final = frozenset(
    {"serviceAccountName", "serviceAccount", "priorityClassName", "priority", "runtimeClassName", "overhead"}
)
"""What a pod is refused for before anybody looks at the rest of it."""


@dataclass(frozen=True)
class Kind:
    """A kind, where it is created, and what its objects look like."""

    name: str
    api_version: str
    path: str
    is_namespaced: bool
    schema: Json
    schemas: Mapping[str, Json]

    def resolve(self, schema: Json) -> Json:
        """What a reference stands for, alone or as the only element of ``allOf``."""
        if "allOf" in schema and len(schema["allOf"]) == 1:
            schema = {**schema, **schema["allOf"][0]}
        if "$ref" in schema:
            return self.resolve(self.schemas[schema["$ref"].rpartition("/")[2]])
        return schema


@dataclass(frozen=True)
class Place:
    """Where in a kind a list or map is: the names on the way, ``[]`` for the element of a list."""

    kind: Kind
    steps: tuple[str, ...]
    element: Json
    is_map: bool

    @property
    def in_pod_spec(self) -> str:
        """Where in a pod's specification it is, if it is part of a template for pods."""
        found = _OF_POD.search(".".join(self.steps))
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.kind.api_version} {self.kind.name} {'.'.join(self.steps)}".replace(".[]", "[]")


def kinds(client: Client) -> list[Kind]:
    """Everything that can be created."""
    found = []
    for version, reference in client.call("GET", "/openapi/v3").json()["paths"].items():
        if not version.startswith(("api/", "apis/")) or version.count("/") != (1 if version[3] == "/" else 2):
            continue
        document = client.call("GET", reference["serverRelativeURL"]).json()
        schemas = (document.get("components") or {}).get("schemas") or {}
        resources = client.call("GET", f"/{version}").json()["resources"]
        for resource in resources:
            if "/" in resource["name"] or "create" not in resource["verbs"]:
                continue
            schema = _schema_of(schemas, version, resource["kind"])
            where = "namespaces/default/" if resource["namespaced"] else ""
            if schema is not None:
                api_version = version.partition("/")[2]
                path = f"/{version}/{where}{resource['name']}"
                found.append(
                    Kind(resource["kind"], api_version, path, resource["namespaced"], schema, schemas)
                )
    return found


def _schema_of(schemas: Mapping[str, Json], version: str, kind: str) -> Json | None:
    *_, group, number = ("", *version.split("/")[1:]) if version.startswith("api/") else version.split("/")
    wanted = {"group": group, "version": number, "kind": kind}
    return next(
        (each for each in schemas.values() if wanted in each.get("x-kubernetes-group-version-kind", ())), None
    )


def places(kind: Kind) -> Iterator[Place]:
    """Every list and map of a kind; what contains itself is entered once."""
    yield from _places(kind, kind.schema, (), frozenset())


def _places(kind: Kind, schema: Json, steps: tuple[str, ...], inside: frozenset[int]) -> Iterator[Place]:
    schema = kind.resolve(schema)
    if id(schema) in inside:
        return
    inside |= {id(schema)}
    for name, each in (schema.get("properties") or {}).items():
        if not steps and name in ("apiVersion", "kind", "status"):
            continue
        found = kind.resolve(each)
        if found.get("type") == "array":
            yield Place(kind, (*steps, name), found["items"], is_map=False)
            yield from _places(kind, found["items"], (*steps, name, "[]"), inside)
        elif isinstance(found.get("additionalProperties"), dict):
            yield Place(kind, (*steps, name), found["additionalProperties"], is_map=True)
        else:
            yield from _places(kind, found, (*steps, name), inside)


def body(place: Place, *, count: int, is_rich: bool, is_distinct: bool) -> bytes:
    """An object whose list has so many elements, or as many as fit."""
    element = json.dumps(example(place.kind, place.element, _DEEP if is_rich else 0))
    count = min(count, max(1, LARGEST_BODY // (len(element) + 16)))
    numbers = range(1, count + 1) if is_distinct else [1] * count
    elements = [element.replace(str(_NUMBER), str(number)) for number in numbers]
    if place.is_map:
        text = ",".join(f'"key-{index}":{each}' for index, each in enumerate(elements))
        text = f"{{{text}}}"
    else:
        text = f"[{','.join(elements)}]"
    document: Json = {"apiVersion": place.kind.api_version, "kind": place.kind.name}
    document["metadata"] = (
        {"name": "long", "namespace": "default"} if place.kind.is_namespaced else {"name": "long"}
    )
    _put(place.kind, place.kind.schema, document, place.steps, _HERE)
    return json.dumps(document).replace(str(_NUMBER), "1").replace(f'"{_HERE}"', text).encode()


def _put(kind: Kind, schema: Json, holder: Json, steps: tuple[str, ...], value: Any) -> None:
    """Set what is at the end of the steps, with everything on the way as plain as may be."""
    name, *rest = steps
    inner = kind.resolve(kind.resolve(schema)["properties"][name])
    if not rest:
        holder[name] = value
        return
    if rest[0] == "[]":
        inner = kind.resolve(inner["items"])
        below = example(kind, inner, 0)
        holder[name] = [below]
        rest = rest[1:]
    else:
        below = holder.setdefault(name, example(kind, inner, 0))
    _put(kind, inner, below, tuple(rest), value)


def example(kind: Kind, schema: Json, deep: int) -> Any:
    """A value of a schema, with a number in it where there may be one."""
    schema = kind.resolve(schema)
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "array":
            return [example(kind, schema["items"], deep - 1)]
        case "object" if "properties" in schema:
            required = schema.get("required", ())
            return {
                name: example(kind, each, deep - 1)
                for name, each in schema["properties"].items()
                if name not in _LOOKED_UP
                if name in required or _is_wanted(kind.resolve(each), deep)
            }
        case "object":
            inner = schema.get("additionalProperties")
            return {"key": example(kind, inner, deep - 1)} if isinstance(inner, dict) else {}
        case "integer" | "number":
            return _NUMBER
        case "boolean":
            return True
        case "string":
            return _TEXTS.get(schema.get("format", ""), f"value-{_NUMBER}")
    return str(_NUMBER) if "oneOf" in schema or "anyOf" in schema else {}


def _is_wanted(schema: Json, deep: int) -> bool:
    return deep > 0 or schema.get("type") in ("string", "integer", "boolean", "number") or "oneOf" in schema
