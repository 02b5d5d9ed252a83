"""What a patch leaves, as an object of the request's version."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.document.shape import ShapeError, conversion_problem, normalize
from quarterdeck.apiserver.document.typetable import struct_for
from quarterdeck.apiserver.registry.body import (
    MAX_PROBLEMS,
    check_identity,
    check_namespace,
    problem_texts,
    type_problem,
    undeterminable,
)
from quarterdeck.apiserver.registry.patch.patchbody import PatchBody, invalid_patch
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.resource.resource import Resource, Undecodable
from quarterdeck.wire import fielderror
from quarterdeck.wire.jsonvalue import deep_copy

_encode = msgspec.json.Encoder(order="sorted").encode


def decode_patched(
    request: ApiRequest,
    options: WriteOptions,
    patched: Any,
    change: PatchBody,
    settled: Json | None = None,
) -> Json:
    """The result of a patch as an object of the request's version.

    `settled` is the object it shares unchanged parts with, which then need not be decoded again.
    """
    resource = request.resource
    if not isinstance(patched, dict):
        raise status.bad_request("the patch does not leave an object")
    if why := _conversion_problem(patched) if change.is_strategic else type_problem(patched):
        raise change.invalid(patched, why)
    api_version, kind = patched.get("apiVersion") or "", patched.get("kind") or ""
    if resource.is_custom:
        _check_custom_type(resource, patched, api_version, kind)
    else:
        if change.is_strategic:  # it goes into a Go value, whose type nothing can change
            api_version, kind = resource.api_version, resource.kind
        patched["kind"] = kind = kind or resource.kind
        if not api_version:
            raise undeterminable(request)
        patched["apiVersion"] = api_version
        if (api_version, kind) != (resource.api_version, resource.kind):
            assert isinstance(resource, BuiltinResource)
            why = _own_problem(patched, api_version, kind) or resource.decode_problem(api_version, kind)
            raise change.invalid(patched, why)
    if patched.get("metadata") is None:
        patched["metadata"] = {}
    shown = patched
    if resource.is_custom and options.field_validation == "Strict":
        patched = deep_copy(patched)  # decoding drops what is shown in an error
    try:
        obj, unknown = (
            resource.decode(patched) if settled is None else resource.decode_changed(patched, settled)
        )
        if len(unknown) > 1 and not resource.is_custom:
            # upstream decodes a text with sorted keys
            unknown = resource.decode(msgspec.json.decode(_encode(shown)))[1]
    except Undecodable as error:
        raise change.invalid(patched, error.converted if change.is_strategic else error.problem) from None
    problems = (change.unknown + problem_texts(change.duplicates, unknown))[:MAX_PROBLEMS]
    if problems and options.field_validation == "Strict":
        raise change.invalid(shown, "strict decoding error: " + ", ".join(problems))
    if options.field_validation == "Warn":
        for text in problems:
            request.warn(text)
    resource.strategy.default(obj)
    check_identity(request, obj)
    check_namespace(request, obj)
    return obj


def _conversion_problem(patched: Json) -> str:
    """What keeps apiVersion and kind from going into a Go value, which a strategic patch does at once."""
    for key in ("kind", "apiVersion"):
        value = patched.get(key)
        if value is not None and not isinstance(value, str):
            return conversion_problem(value, "string")
    return ""


def _own_problem(patched: Json, api_version: str, kind: str) -> str:
    """What is wrong with the result as an object of the kind it claims to be; that comes first."""
    group, _, version = api_version.rpartition("/")
    try:
        normalize(patched, struct_for(group, version, kind))
    except ShapeError as error:
        return str(error)
    except KeyError:  # a kind nobody knows
        return ""
    return ""


def _check_custom_type(resource: Resource, patched: Json, api_version: str, kind: str) -> None:
    """A patch may not turn a custom resource into something else."""
    if not kind:
        shown = _encode(patched).decode()
        raise invalid_patch(shown, f"Object 'Kind' is missing in '{shown}'")
    if not api_version:
        raise status.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    if kind != resource.kind:
        raise resource.wrong_kind(kind, patched)
    if api_version != resource.api_version:
        error = fielderror.invalid("apiVersion", api_version, f"must be {resource.api_version}")
        name = (patched.get("metadata") or {}).get("name", "")
        raise status.invalid(kind, api_version.rpartition("/")[0], name, [error])
