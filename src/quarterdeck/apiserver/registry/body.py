"""The object in a request body: parsed, checked against the URL, with its unknown fields reported."""

from __future__ import annotations

from typing import Any

from quarterdeck.apiserver import document, gostyle, status
from quarterdeck.apiserver.resource import parse_body

from .request import ApiRequest, WriteOptions

Json = dict[str, Any]
_MAX_PROBLEMS = 100


def parse_object(request: ApiRequest, options: WriteOptions) -> Json:
    """The object of a POST or PUT, well-shaped and of the request's version."""
    resource = request.resource
    http = request.http
    parsed, is_json = parse_body(
        http.headers.get("content-type", ""), http.body, resource.kind, is_custom=resource.is_custom
    )
    if not isinstance(parsed, dict):
        raise document.unrecognized(
            resource.kind,
            "json: cannot unmarshal "
            + ("array" if isinstance(parsed, list) else "string" if isinstance(parsed, str) else "number")
            + ' into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }',
            http.body,
        )
    check_type(request, parsed, http.body)
    duplicates: list[str] = []
    if is_json and options.field_validation != "Ignore":
        duplicates = document.duplicate_fields(http.body, parsed)
    obj, unknown = resource.decode(parsed)
    check_problems(request, options, duplicates, unknown)
    check_namespace(request, obj)
    return obj


def check_type(request: ApiRequest, parsed: Json, body: bytes) -> None:
    """apiVersion and kind of the body must be those of the URL; built-in ones may be left out."""
    resource = request.resource
    api_version, kind = parsed.get("apiVersion"), parsed.get("kind")
    if not resource.is_custom:
        parsed.setdefault("apiVersion", resource.api_version)
        parsed.setdefault("kind", resource.kind)
        api_version = api_version or resource.api_version
        kind = kind or resource.kind
    if not kind:
        shown = body.decode("utf-8", "replace")
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing "
            f"in {gostyle.quote(shown)[1:-1]!r}"
        )
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise status.bad_request("apiVersion and kind must be strings")
    if api_version != resource.api_version:
        raise status.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        raise resource.wrong_kind(kind, parsed)


def check_problems(
    request: ApiRequest, options: WriteOptions, duplicates: list[str], unknown: list[str]
) -> None:
    """Unknown and duplicate fields: refused, warned about or ignored."""
    if not (duplicates or unknown) or options.field_validation == "Ignore":
        return
    problems = problem_texts(duplicates, unknown)
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
    return problems[:_MAX_PROBLEMS]


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
        meta["name"] = request.info.name
    elif name != request.info.name:
        raise status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.info.name})"
        )
