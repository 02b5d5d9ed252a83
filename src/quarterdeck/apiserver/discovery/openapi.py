"""OpenAPI documents: v3 per group version (kubectl explain, validation), v2 in one piece, also as protobuf.

Built-in schemas come from the type table, custom ones from their CRDs. Descriptions of built-in fields are
not shipped, except those of metadata. Documents are built on first use and cached until a CRD changes.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.document import typetable
from quarterdeck.apiserver.document.metadatatext import describe_metadata
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.schema import openapi as custom_schema
from quarterdeck.wire.http import Request, Response

from . import gnostic

_encode = msgspec.json.Encoder().encode
_KINDS = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_REF = "#/components/schemas/"
_YEAR = 365 * 24 * 3600
_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: What clients call the formats of v2, in the order of our preference.
_V2_FORMATS = {
    _JSON: _JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    _PROTOBUF: _PROTOBUF,
}
#: Also numbers; v2 cannot say so, and its readers take numbers for strings.
_V2_STRINGS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"
_ACTIONS = {
    "create": ("post", "post"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
    "get": ("get", "get"),
}


class OpenApi:
    """Serves /openapi/v2 and /openapi/v3."""

    def __init__(self, table: ResourceTable, version: str) -> None:
        self._table = table
        self._version = version
        self._generation = -1
        self._documents: dict[str, tuple[bytes, str]] = {}
        self._builtin: dict[str, tuple[bytes, str]] = {}

    def serve(self, request: Request) -> Response | None:
        path = request.path
        if self._generation != self._table.generation:
            self._generation = self._table.generation
            self._documents = {}
        if path == "/openapi/v3":
            return Response(200, _encode(self._index()))
        if path == "/openapi/v2":
            return self._serve_v2(request)
        if path.startswith("/openapi/v3/"):
            return self._serve_v3(request, path.removeprefix("/openapi/v3/"))
        return None

    def _serve_v2(self, request: Request) -> Response:
        media = _v2_format(request.headers.get("accept", ""))
        if media is None:
            return Response(406, content_type="text/plain", headers=[("Vary", "Accept")])
        body, digest = self._v2() if media == _JSON else self._v2_protobuf()
        headers = [("ETag", f'"{digest}"'), ("Vary", "Accept")]
        if request.headers.get("if-none-match", "").strip('"') == digest:
            return Response(304, headers=headers)
        return Response(200, body, content_type=media, headers=headers)

    def _serve_v3(self, request: Request, name: str) -> Response | None:
        found = self._document(name)
        if found is None:
            return None
        body, digest = found
        headers: list[tuple[str, str]] = [("ETag", f'"{digest}"'), ("Vary", "Accept")]
        given = request.param("hash")
        if given and given != digest:
            location = f"/openapi/v3/{name}?hash={digest}"
            return Response(301, b"", headers=[("Location", location)], content_type="text/plain")
        if given:
            headers.append(("Cache-Control", f"public, immutable, max-age={_YEAR}"))
        if request.headers.get("if-none-match", "").strip('"') == digest:
            return Response(304, headers=headers)
        return Response(200, body, headers=headers)

    def _names(self) -> list[str]:
        names = []
        for group, versions in self._table.groups():
            for version in versions:
                names.append(f"apis/{group}/{version}" if group else f"api/{version}")
        return names

    def _index(self) -> Json:
        paths = {}
        for name in sorted(self._names()):
            found = self._document(name)
            assert found is not None
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={found[1]}"}
        return {"paths": paths}

    def _document(self, name: str) -> tuple[bytes, str] | None:
        parts = name.split("/")
        if parts[0] == "api" and len(parts) == 2:
            group, version = "", parts[1]
        elif parts[0] == "apis" and len(parts) == 3:
            group, version = parts[1], parts[2]
        else:
            return None
        resources = self._table.resources(group, version)
        if not resources:
            return None
        cache = self._documents if any(each.is_custom for each in resources) else self._builtin
        if name not in cache:
            body = _encode(self._build(group, version, resources))
            cache[name] = (body, hashlib.sha512(body).hexdigest().upper())
        return cache[name]

    def _build(self, group: str, version: str, resources: list[Resource]) -> Json:
        schemas = _Schemas(group, version)
        paths: Json = {}
        for resource in sorted(resources, key=lambda each: each.plural):
            _add_paths(paths, resource, schemas)
        schemas.add_kind(_META + "DeleteOptions", [])
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": dict(sorted(paths.items())),
            "components": {"schemas": dict(sorted(schemas.found.items()))},
        }

    def _v2(self) -> tuple[bytes, str]:
        key = "v2"
        if key not in self._documents:
            definitions: Json = {}
            paths: Json = {}
            for name in self._names():
                found = self._document(name)
                assert found is not None
                document = msgspec.json.decode(found[0])
                _merge(definitions, document["components"]["schemas"])
                for path, item in document["paths"].items():
                    paths[path] = {verb: _v2_operation(operation) for verb, operation in item.items()}
            definitions = custom_schema.to_v2(definitions)
            for name in _V2_STRINGS & definitions.keys():
                definitions[name]["type"] = "string"
            body = _encode(
                {
                    "swagger": "2.0",
                    "info": {"title": "Kubernetes", "version": self._version},
                    "paths": paths,
                    "definitions": definitions,
                }
            ).replace(b'"#/components/schemas/', b'"#/definitions/')
            self._documents[key] = (body, hashlib.sha512(body).hexdigest().upper())
        return self._documents[key]

    def _v2_protobuf(self) -> tuple[bytes, str]:
        key = "v2+protobuf"
        if key not in self._documents:
            body, digest = self._v2()
            # One digest for both formats, as upstream: the answers vary by Accept.
            self._documents[key] = (gnostic.encode(msgspec.json.decode(body)), digest)
        return self._documents[key]


def _v2_format(accept: str) -> str | None:
    """The media type to answer /openapi/v2 with; None if the client takes none of ours."""
    choices = []
    for clause in (accept or "*/*").split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                with contextlib.suppress(ValueError):
                    quality = float(parameter[2:])
        choices.append((-quality, media.count("*"), media))
    for _, _, media in sorted(choices, key=lambda each: each[:2]):
        if media in _V2_FORMATS:
            return _V2_FORMATS[media]
        if media in ("*", "*/*", "application/*"):
            return _JSON
    return None


def _merge(definitions: Json, more: Json) -> None:
    """Add the schemas of a document; a model of several documents has the kinds of all of them."""
    for name, schema in more.items():
        if name not in definitions:
            definitions[name] = schema
        elif _KINDS in schema:
            kinds = definitions[name].setdefault(_KINDS, [])
            kinds.extend(kind for kind in schema[_KINDS] if kind not in kinds)


def _v2_operation(operation: Json) -> Json:
    found = {part: operation[part] for part in ("x-kubernetes-action", _KINDS) if part in operation}
    parameters = [
        {"name": each["name"], "in": each["in"], **each["schema"]} for each in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content")
    if content:
        found["consumes"] = list(content)
        schema = next(iter(content.values()))["schema"]
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": schema})
    if parameters:
        found["parameters"] = parameters
    found["responses"] = {
        code: {"description": answer["description"], "schema": answer["content"][_JSON]["schema"]}
        for code, answer in operation["responses"].items()
    }
    return found


class _Schemas:
    """Component schemas of one document, with everything they refer to."""

    def __init__(self, group: str, version: str) -> None:
        self.found: Json = {}
        self._group = group
        self._version = version

    def add_kind(self, name: str, kinds: list[Json]) -> None:
        if name not in self.found:
            self._add_builtin(name)
        if kinds:
            known = self.found[name].setdefault(_KINDS, [])
            known.extend(kind for kind in kinds if kind not in known)

    def add_custom(self, name: str, schema: Json) -> None:
        self.found[name] = schema
        self._follow(schema)

    def _add_builtin(self, name: str) -> None:
        schema = typetable.openapi(name, self._group, self._version)
        if name == _META + "ObjectMeta":
            describe_metadata(schema)
        self.found[name] = schema
        self._follow(schema)

    def _follow(self, node: Any) -> None:
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith(_REF):
                name = reference.removeprefix(_REF)
                if name not in self.found:
                    self._add_builtin(name)
            for value in node.values():
                self._follow(value)
        elif isinstance(node, list):
            for value in node:
                self._follow(value)


def _model(resource: Resource) -> str:
    if isinstance(resource, BuiltinResource):
        return resource.struct.name
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def _add_paths(paths: Json, resource: Resource, schemas: _Schemas) -> None:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    model = _model(resource)
    if isinstance(resource, BuiltinResource):
        schemas.add_kind(model, [kind])
        list_model = f"{model}List"
        if "list" in resource.verbs:
            schemas.add_kind(list_model, [{**kind, "kind": f"{resource.kind}List"}])
    else:
        raw = resource.version_spec.get("schema", {}).get("openAPIV3Schema", {})  # type: ignore[attr-defined]
        schemas.add_custom(model, {**custom_schema.publish(raw), _KINDS: [kind]})
        list_model = f"{'.'.join(model.split('.')[:-1])}.{resource.list_kind}"
        schemas.add_custom(list_model, _list_schema(model, {**kind, "kind": resource.list_kind}))
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if resource.namespaced:
        if "list" in resource.verbs:
            paths[f"{root}/{resource.plural}"] = {"get": _operation("list", kind, list_model, resource)}
        root = f"{root}/namespaces/{{namespace}}"
    collection: Json = {}
    if "list" in resource.verbs:
        collection["get"] = _operation("list", kind, list_model, resource)
    if "create" in resource.verbs:
        collection["post"] = _operation("post", kind, model, resource)
    if "deletecollection" in resource.verbs:
        collection["delete"] = _operation("deletecollection", kind, _META + "Status", resource)
        schemas.add_kind(_META + "Status", [])
    paths[f"{root}/{resource.plural}"] = collection
    item: Json = {}
    for verb in ("get", "update", "patch", "delete"):
        if verb in resource.verbs:
            method, action = _ACTIONS[verb]
            item[method] = _operation(action, kind, model, resource)
    if item:
        paths[f"{root}/{resource.plural}/{{name}}"] = item
    for sub in resource.subresources.values():
        sub_kind = kind if not sub.version else {"group": sub.group, "version": sub.version, "kind": sub.kind}
        operations = {
            _ACTIONS[verb][0]: _operation(_ACTIONS[verb][1], sub_kind, model, resource)
            for verb in sub.verbs
            if verb in _ACTIONS
        }
        paths[f"{root}/{resource.plural}/{{name}}/{sub.name}"] = operations


def _operation(action: str, kind: Json, model: str, resource: Resource) -> Json:
    schema = {"$ref": _REF + model}
    operation: Json = {
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        _KINDS: kind,
    }
    if action in ("post", "put", "patch", "delete", "deletecollection"):
        operation["parameters"] = [_parameter("dryRun")]
        if action in ("post", "put", "patch"):
            operation["parameters"] += [_parameter("fieldManager"), _parameter("fieldValidation")]
        if action == "patch":
            operation["parameters"].append(_parameter("force", "boolean"))
            types = _PATCH_TYPES if resource.is_custom else (*_PATCH_TYPES, _STRATEGIC)
            body = {"schema": {"type": "object"}}
            operation["requestBody"] = {"content": dict.fromkeys(types, body)}
        elif action in ("post", "put"):
            operation["requestBody"] = {"content": {"*/*": {"schema": schema}}}
    return operation


def _parameter(name: str, kind: str = "string") -> Json:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _list_schema(model: str, kind: Json) -> Json:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": _REF + model}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{_REF}{_META}ListMeta"}]},
        },
        _KINDS: [kind],
    }
