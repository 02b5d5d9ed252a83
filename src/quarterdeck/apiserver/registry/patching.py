"""PATCH in its four forms."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply.write import object_text
from quarterdeck.apiserver.builtin.typetable import struct_for
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.document.shape import ShapeError, normalize
from quarterdeck.apiserver.patch import jsonpatch, merge, strategic
from quarterdeck.apiserver.patch.decode import unmarshal_error
from quarterdeck.apiserver.resource.resource import BuiltinResource, Resource
from quarterdeck.apiserver.resource.strategy import Strategy
from quarterdeck.wire import fielderror
from quarterdeck.wire.gostyle import plain
from quarterdeck.wire.http import Response

from .body import (
    MAX_PROBLEMS,
    check_identity,
    check_namespace,
    check_problems,
    problem_texts,
    undeterminable,
    yaml_problem,
)
from .change import Manner
from .context import Context, deep_copy
from .request import ApiRequest, WriteOptions
from .write import Writer

Json = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
_encode = msgspec.json.Encoder(order="sorted").encode


class Patcher:
    """Runs patches through the writer's update pipeline."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def patch(self, request: ApiRequest, rules: Strategy | None = None) -> Response:
        """`rules` stand in for the kind's strategy where a subresource has different ones."""
        media = decoding.media_type(request.http.headers.get("content-type", ""))
        check_patch_type(media, is_custom=request.resource.is_custom)
        if media == APPLY_YAML:
            return await self._apply(request, rules)
        return await self._patch(request, media, rules)

    async def _patch(self, request: ApiRequest, media: str, rules: Strategy | None) -> Response:
        options = WriteOptions.of(request, "PatchOptions")
        change = PatchBody(media, request.http.body)

        async def transform(old: Json | None, context: Context) -> Json:
            assert old is not None
            settled = old if context.is_settled and change.is_merge else None
            patched = change.apply(old, request.resource, shares=settled is not None)
            return decode_patched(request, options, patched, change, settled)

        return await self._writer.modify(request, options, transform, Manner(is_patch=True, rules=rules))

    async def _apply(self, request: ApiRequest, rules: Strategy | None) -> Response:
        options = WriteOptions.of(request, "PatchOptions", is_apply=True)
        config = parse_apply(request)
        _check_repeated_keys(request, options, config)
        resource = request.resource

        async def transform(old: Json | None, context: Context) -> Json:
            merged = await resource.track(
                lambda owners: owners.apply(
                    old,
                    deep_copy(config),
                    manager=options.field_manager,
                    api_version=resource.api_version,
                    force=bool(options.force),
                    subresource=request.info.subresource,
                    now=context.now,
                )
            )
            try:
                obj, unknown = resource.decode(merged, applied=True)
            except status.StatusError as error:
                raise _unconvertible(resource, config, error) from None
            if not resource.is_custom:  # a custom one is pruned in silence where its schema lets it through
                check_problems(request, options, problem_texts([], unknown))
            resource.strategy.default(obj)
            # what was merged is checked: a configuration may leave out the name of an object that exists
            check_identity(request, obj)
            check_namespace(request, obj)
            return obj

        manner = Manner(is_patch=True, is_apply=True, rules=rules)
        return await self._writer.modify(request, options, transform, manner)


class PatchBody:
    """A JSON, merge or strategic patch, parsed once and applied as often as the write is retried."""

    def __init__(self, media: str, body: bytes) -> None:
        self._media = media
        self._body = body
        self._is_decoded = False
        #: what field validation has to say about the patch itself
        self.duplicates: list[str] = []
        self.unknown: list[str] = []
        self._patch: Any = None

    def _decode(self) -> None:
        """Not before there is something to patch: a missing object matters more than a bad patch."""
        self._is_decoded = True
        if self._media == JSON_PATCH:
            self._patch = jsonpatch.decode(self._body)
            self.unknown = jsonpatch.unknown_fields(self._patch)
            return
        self._patch = merge.decode(self._body) if self._media == MERGE_PATCH else strategic.decode(self._body)
        self.duplicates = decoding.duplicate_fields(self._body, self._patch)

    def invalid(self, patched: Json, why: str) -> status.StatusError:
        """422 for a result that cannot be decoded. A strategic patch goes straight into Go values."""
        if self.is_strategic:
            return invalid_patch(plain(self._patch), _restore_problem(why))
        return invalid_patch(_encode(patched).decode(), why)

    @property
    def is_strategic(self) -> bool:
        return self._media == STRATEGIC_PATCH

    @property
    def is_merge(self) -> bool:
        return self._media == MERGE_PATCH

    def apply(self, old: Json, resource: Resource, *, shares: bool = False) -> Any:
        """The patched object; `shares`: what a merge patch does not change may be that of `old` itself."""
        if not self._is_decoded:
            self._decode()
        if self._media == JSON_PATCH:
            return jsonpatch.apply(old, self._patch)
        if self._media == MERGE_PATCH:
            return merge.apply(old if shares else deep_copy(old), self._patch)
        assert isinstance(resource, BuiltinResource)
        return strategic.apply(old, self._patch, resource.struct)


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
    except status.StatusError as error:
        raise change.invalid(patched, _decode_problem(resource, error)) from None
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


_UNMARSHAL = re.compile(
    r"json: cannot unmarshal (\w+)(?: .*)? into Go (?:struct field \S+|value) of type (.+)"
)
_GO_KINDS = {"object": "map", "array": "slice", "number": "int64"}
_FRACTION = re.compile(r"json: cannot unmarshal number .*[.eE].* into Go struct field \S+ of type (int\d+)")


def _restore_problem(why: str) -> str:
    """A type error of JSON decoding in the words of Go's conversion from unstructured values."""
    if why.startswith("illegal base64 data"):
        return f"error decoding from json: {why}"
    if found := _FRACTION.fullmatch(why):
        return f"cannot convert float64 to {found[1]}"
    found = _UNMARSHAL.fullmatch(why)
    if found is None or "into Go value of type" in why:
        return why
    given, wanted = _GO_KINDS.get(found[1], found[1]), found[2]
    if wanted.startswith("[]"):
        return f"cannot restore slice from {given}"
    if wanted.startswith("map["):
        return f"cannot restore map from {given}"
    if "." in wanted:
        return f"cannot restore struct from: {given}"
    return f"unrecognized type: {wanted}"


def _unconvertible(resource: Resource, config: Json, error: status.StatusError) -> status.StatusError:
    """500 for an applied object of a built-in kind that is no value of its Go type."""
    if resource.is_custom:
        return error
    why = _restore_problem(_decode_problem(resource, error))
    group_version = _group_version(config)
    return status.plain_error(
        f"failed to convert new object ({object_text(config)}) to proper version: "
        f"unable to convert unstructured object to {group_version}, Kind={resource.kind}: {why}"
    )


def _decode_problem(resource: Resource, error: status.StatusError) -> str:
    """The part of a refused body's message that says what is wrong."""
    return error.message.partition(f" a {resource.kind}: ")[2]


def invalid_patch(shown: str, why: str) -> status.StatusError:
    """422 for a patch whose result cannot be decoded; upstream names neither kind nor object."""
    error = fielderror.invalid("patch", shown, why)
    return status.StatusError(
        422,
        f' "" is invalid: {error}',
        reason="Invalid",
        details={"causes": [error.cause()]},
    )


def parse_apply(request: ApiRequest) -> Json:
    """The configuration of an apply: YAML (or JSON), of the request's type."""
    resource = request.resource
    body = request.http.body
    try:
        if body[:1] == b"{":
            config = decoding.with_integers(body, decoding.parse_json(body, repairs=False))
        else:
            config = decoding.parse_yaml(body)
    except decoding.ParseError:
        try:
            config = decoding.parse_yaml(body)
        except decoding.ParseError as error:
            raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise status.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            + unmarshal_error(config, "Go value of type map[string]interface {}")
        )
    for key in ("apiVersion", "kind"):
        if not isinstance(config.get(key), str):
            config.pop(key, None)
    if not config.get("kind") or not config.get("apiVersion"):
        raise status.bad_request(
            "invalid object type: /, Kind="
            if not config.get("apiVersion") and not config.get("kind")
            else f"invalid object type: {_group_version(config)}, Kind={config.get('kind') or ''}"
        )
    if config["apiVersion"] != resource.api_version or config["kind"] != resource.kind:
        raise status.bad_request(f"invalid object type: {_group_version(config)}, Kind={config['kind']}")
    meta = config.get("metadata")
    if not isinstance(meta, dict):
        meta = {}
    if "managedFields" in meta and meta["managedFields"] is not None:
        raise status.bad_request("metadata.managedFields must be nil")
    return config


def _check_repeated_keys(request: ApiRequest, options: WriteOptions, config: Json) -> None:
    """Field validation of an apply's text, in which the last of several equal keys counts."""
    body = request.http.body
    if options.field_validation == "Ignore" or (
        body[:1] == b"{" and not decoding.duplicate_fields(body, config)
    ):
        return
    repeated = decoding.yaml_duplicates(body)
    if repeated and options.field_validation == "Strict":
        why = f"error converting YAML to JSON: {yaml_problem(repeated)}"
        raise status.bad_request(f"error strict decoding YAML: {why}")
    for text in repeated:
        request.warn(text)


def _group_version(config: Json) -> str:
    version = str(config.get("apiVersion", ""))
    return version if "/" in version else f"/{version}"


def check_patch_type(media: str, *, is_custom: bool) -> None:
    if media in (JSON_PATCH, MERGE_PATCH, APPLY_YAML) or (media == STRATEGIC_PATCH and not is_custom):
        return
    if not is_custom:
        raise status.StatusError(
            415, "415: Unsupported Media Type", reason="UnsupportedMediaType", details={}
        )
    raise status.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_YAML))
    )
