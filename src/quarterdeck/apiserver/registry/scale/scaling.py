"""Reads and writes of the scale subresource.

A write is one of an autoscaling/v1 Scale: it is decoded, patched, owned and admitted as such. Only its
replicas, its resourceVersion and the ownership of the replicas reach the object behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import GroupVersionKind
from quarterdeck.apiserver.apply.scale import to_parent, to_scale
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.registry.answer import object_response
from quarterdeck.apiserver.registry.body import check_identity, check_namespace, decode_object
from quarterdeck.apiserver.registry.patch.applybody import parse_apply
from quarterdeck.apiserver.registry.patch.patchbody import APPLY_YAML, PatchBody, check_patch_type
from quarterdeck.apiserver.registry.patch.patchresult import decode_patched
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.scale.scaleview import PathScale, ScaleView, check_replicas, scale_for
from quarterdeck.apiserver.registry.write.admit import Projection
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.registry.write.transient import transient_kind
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.wire.http import Response
from quarterdeck.wire.jsonvalue import deep_copy

if TYPE_CHECKING:
    from quarterdeck.apiserver.crd.customresource import CustomResource

_KIND = GroupVersionKind("autoscaling", "v1", "Scale")
_REPLICAS = ("f:spec", "f:replicas")
#: all that upstream says about a body it cannot decode for a custom resource
_UNKNOWN_SCALE = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
#: what a client makes of the Scale it is shown
_Change = Callable[[Json, Context], Json]


def _scales() -> BuiltinResource:
    return transient_kind(*_KIND)


class Scaling:
    """Serves `<resource>/<name>/scale`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def serve(self, request: ApiRequest) -> Response:
        resource = request.resource
        view = _view(resource)
        if request.info.verb == "get":
            entry = resource.bucket.get(request.info.namespace, request.info.name)
            if entry is None:
                raise resource.not_found(request.info.name)
            [obj] = await resource.read_many([entry])
            return _response(request, view.read(obj))
        options, change = _asked(request)
        paths = _replica_paths(resource)
        projection = Projection(_KIND, view.shown)

        async def transform(old: Json | None, context: Context) -> Json:
            assert old is not None
            owners = old["metadata"].get("managedFields")
            shown = view.shown(old)
            if entries := to_scale(owners, paths):
                shown["metadata"]["managedFields"] = entries
            wanted = await self._writer.mutate_as(context, options, projection, change(shown, context), shown)
            obj = deep_copy(old)
            meta = obj["metadata"]
            wanted.setdefault("spec", {})
            replicas = wanted["spec"].get("replicas", 0)
            if not resource.is_custom:  # those have their schema
                check_replicas(replicas, meta["name"])
            view.write(obj, replicas)
            # both say which object is meant, and are checked like those of any update
            meta["uid"] = wanted["metadata"].get("uid", "")
            meta["resourceVersion"] = wanted["metadata"].get("resourceVersion", "")
            meta["managedFields"] = to_parent(
                owners, wanted["metadata"].get("managedFields"), resource.api_version, paths
            )
            if not meta["managedFields"]:
                del meta["managedFields"]
            return obj

        obj = await self._writer.modify_as(request, options, transform, projection)
        return _response(request, view.read(obj))


def _response(request: ApiRequest, scale: Json) -> Response:
    scoped = ApiRequest(request.http, request.info, _scales(), request.user, request.output)
    scoped.warnings = request.warnings
    return object_response(scoped, 200, scale)


def _view(resource: Resource) -> ScaleView:
    if resource.is_custom:
        return PathScale(cast("CustomResource", resource).version_spec["subresources"]["scale"])
    return scale_for(resource.group, resource.plural)


def _replica_paths(resource: Resource) -> dict[str, tuple[str, ...] | None]:
    """Where each version of the kind keeps its replicas; None for versions without a scale."""
    if not resource.is_custom:
        return {resource.api_version: _REPLICAS}
    paths: dict[str, tuple[str, ...] | None] = {}
    for version in cast("CustomResource", resource).family.versions.values():
        scale = (version.version_spec.get("subresources") or {}).get("scale")
        keys = scale["specReplicasPath"].lstrip(".").split(".") if scale else ()
        paths[version.api_version] = tuple(f"f:{key}" for key in keys) or None
    return paths


def _asked(request: ApiRequest) -> tuple[WriteOptions, _Change]:
    """The options of a write and what it does to a Scale."""
    scales = _scales()
    scoped = ApiRequest(request.http, request.info, scales, request.user, request.output)
    scoped.warnings = request.warnings
    if request.info.verb == "patch":
        media = decoding.media_type(request.http.headers.get("content-type", ""))
        check_patch_type(media, is_custom=request.resource.is_custom)
        if media == APPLY_YAML:
            return _apply(scoped)
        return _patch(scoped, media)
    options = WriteOptions.of(scoped, "UpdateOptions")
    try:
        body = decode_object(scoped, options)
    except status.StatusError as error:
        if not request.resource.is_custom:
            raise
        raise status.StatusError(
            error.code, _UNKNOWN_SCALE, reason=error.reason, details=error.details
        ) from None
    check_namespace(scoped, body)
    check_identity(scoped, body)
    return options, lambda shown, context: _owned(shown, deep_copy(body), options, context)


def _patch(request: ApiRequest, media: str) -> tuple[WriteOptions, _Change]:
    options = WriteOptions.of(request, "PatchOptions")
    patch = PatchBody(media, request.http.body)

    def change(shown: Json, context: Context) -> Json:
        scale = decode_patched(request, options, patch.apply(shown, request.resource), patch)
        return _owned(shown, scale, options, context)

    return options, change


def _apply(request: ApiRequest) -> tuple[WriteOptions, _Change]:
    options = WriteOptions.of(request, "PatchOptions", is_apply=True)
    config = parse_apply(request)
    scales = _scales()

    def change(shown: Json, context: Context) -> Json:
        merged = scales.field_manager.apply(
            shown,
            deep_copy(config),
            manager=options.field_manager,
            api_version=scales.api_version,
            force=bool(options.force),
            subresource="scale",
            now=context.now,
        )
        scale, _ = scales.decode(merged)
        check_identity(request, scale)
        return scale

    return options, change


def _owned(shown: Json, wanted: Json, options: WriteOptions, context: Context) -> Json:
    scales = _scales()
    scales.field_manager.update(
        shown,
        wanted,
        manager=options.field_manager,
        api_version=scales.api_version,
        subresource="scale",
        now=context.now,
    )
    return wanted
