"""The object in a request body: parsed, checked against the URL, with its unknown fields reported."""

from __future__ import annotations

from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.document.unmarshal import go_kind
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.resource.resource import (
    Resource,
    Undecodable,
    decode_problem,
    is_registered,
    parse_body,
)

MAX_PROBLEMS = 100
_TYPE_META = (
    'type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def parse_object(request: ApiRequest, options: WriteOptions) -> Json:
    """The object of a POST or PUT: well-shaped, of the request's version and in its namespace."""
    obj = decode_object(request, options)
    check_namespace(request, obj)
    return obj


def decode_object(request: ApiRequest, options: WriteOptions) -> Json:
    """The object of a body, well-shaped and of the request's version."""
    resource = request.resource
    http = request.http
    huge: decoding.BeyondDouble | None = None
    try:
        parsed, is_json = parse_body(
            http.headers.get("content-type", ""), http.body, resource.kind, is_custom=resource.is_custom
        )
        if resource.is_custom:
            decoding.check_range(http.body, parsed)
    except decoding.BeyondDouble as error:
        if resource.is_custom:
            raise Undecodable(resource.kind, resource.version, str(error)) from None
        parsed, is_json, huge = error.document, True, error
    if parsed is None and resource.is_custom:
        raise decoding.unrecognized(resource.kind, "Object 'Kind' is missing in 'null'", http.body)
    parsed = as_object(parsed, resource.kind, http.body)
    check_type(request, parsed, http.body)
    duplicates: list[str] = []
    if is_json and huge is None and options.field_validation != "Ignore":
        duplicates = decoding.duplicate_fields(http.body, parsed)
    obj, unknown = resource.decode(parsed)
    if huge is not None and decoding.huge_number(obj) is not None:
        raise Undecodable(resource.kind, resource.version, str(huge))
    if not (is_json or resource.is_custom):
        unknown.sort()  # upstream reads YAML by way of JSON with sorted keys
    problems = problem_texts(duplicates, unknown) if duplicates or unknown else []
    if duplicates and unknown and not resource.is_custom:
        problems = [
            f'{"duplicate" if is_repeated else "unknown"} field "{path}"'
            for path, is_repeated in decoding.in_document_order(http.body, set(unknown))
        ]
    if not is_json and options.field_validation != "Ignore":
        check_yaml_duplicates(request, options, problems)
    check_problems(request, options, problems)
    return obj


def as_object(parsed: Any, kind: str, body: bytes) -> Json:
    """A parsed body as an object that may be asked for its type; null is an empty object, as for Go."""
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        why = f"{_NO_TYPE} {go_kind(parsed)} into Go value of {_TYPE_META}"
        raise decoding.unrecognized(kind, why, body)
    if why := type_problem(parsed):
        raise decoding.unrecognized(kind, why, body)
    return parsed


_NO_TYPE = "couldn't get version/kind; json parse error: json: cannot unmarshal"


def type_problem(document: Json) -> str:
    """Why a document cannot be asked for its type: apiVersion and kind are texts."""
    for key in ("apiVersion", "kind"):
        value = document.get(key)
        if value is not None and not isinstance(value, str):
            return f"{_NO_TYPE} {go_kind(value)} into Go struct field .{key} of type string"
    return ""


def check_type(request: ApiRequest, parsed: Json, body: bytes) -> None:
    """apiVersion and kind of the body must be those of the URL; built-in ones may be left out."""
    resource = request.resource
    api_version, kind = parsed.get("apiVersion") or "", parsed.get("kind") or ""
    if not resource.is_custom:
        parsed["apiVersion"] = api_version = api_version or resource.api_version
        parsed["kind"] = kind = kind or resource.kind
    elif not kind:
        shown = body.decode("utf-8", "replace")
        raise decoding.unrecognized(resource.kind, f"Object 'Kind' is missing in '{shown}'", body)
    if api_version != resource.api_version:
        raise wrong_version(resource, api_version, kind)
    # an update of a custom resource looks at the kind later, see Writer
    if kind != resource.kind and not (resource.is_custom and request.info.verb == "update"):
        raise resource.wrong_kind(kind, parsed)


def wrong_version(resource: Resource, api_version: str, kind: str) -> status.StatusError:
    """A body of another version: one of the same kind does not match, others cannot be decoded."""
    if not resource.is_custom and (kind != resource.kind or not is_registered(api_version, kind)):
        return status.bad_request(
            f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
            + decode_problem(resource.group, resource.kind, api_version, kind)
        )
    return status.bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version "
        f"({resource.api_version})"
    )


def check_yaml_duplicates(request: ApiRequest, options: WriteOptions, problems: list[str]) -> None:
    """Puts repeated keys of a YAML body before its other problems: one error, or one warning each."""
    media = decoding.media_type(request.http.headers.get("content-type", ""))
    if media != decoding.YAML_TYPE or not (repeated := decoding.yaml_duplicates(request.http.body)):
        return
    if options.field_validation == "Strict":
        repeated = [yaml_problem(repeated)]
    problems[:0] = repeated


def yaml_problem(repeated: list[str]) -> str:
    return "yaml: unmarshal errors:\n  " + "\n  ".join(repeated)


def check_problems(request: ApiRequest, options: WriteOptions, problems: list[str]) -> None:
    """Unknown and duplicate fields: refused, warned about or ignored."""
    if not problems or options.field_validation == "Ignore":
        return
    if not request.resource.is_custom:  # those come from a decoder that stops counting
        problems = problems[:MAX_PROBLEMS]
    if options.field_validation == "Strict":
        resource = request.resource
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(problems)}"
        )
    for text in problems:
        request.warn(text)


def problem_texts(duplicates: list[str], unknown: list[str]) -> list[str]:
    problems = [f'duplicate field "{path}"' for path in duplicates]
    problems += [f'unknown field "{path}"' for path in unknown]
    return problems


def check_namespace(request: ApiRequest, obj: Json) -> None:
    meta = obj["metadata"]
    given = meta.get("namespace", "")
    wanted = request.info.namespace if request.resource.namespaced else ""
    if given and given != wanted and request.resource.namespaced:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_identity(request: ApiRequest, obj: Json) -> None:
    """The name in the body of a PUT is that of the URL."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        raise undeterminable(request)
    if name != request.info.name:
        raise status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.info.name})"
        )


def undeterminable(request: ApiRequest) -> status.StatusError:
    """400 for an object that does not say its name."""
    return status.bad_request(
        f"the name of the object ({request.info.name} based on URL) was undeterminable: name must be provided"
    )
