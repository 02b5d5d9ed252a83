"""Subresources: status, scale, and the special ones of pods, namespaces and service accounts."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from quarterdeck.apiserver import document, status
from quarterdeck.apiserver.auth import ServiceAccountTokens, token_request
from quarterdeck.apiserver.http import Response
from quarterdeck.apiserver.patch import jsonpatch, merge
from quarterdeck.apiserver.resource import Resource
from quarterdeck.apiserver.storage import Entry
from quarterdeck.apiserver.subresourcerules import scale_for, subresource_rules

from .answer import document_response
from .body import check_identity, parse_object
from .patching import APPLY_YAML, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patcher, unsupported_patch
from .podaction import PodActions, parse_as
from .read import Reader
from .request import ApiRequest, WriteOptions
from .scale import PathScale, ScaleView, check_scale
from .write import Context, Writer, deep_copy

Json = dict[str, Any]
Result = Response | Awaitable[Response]
_UNSUPPORTED = frozenset({"exec", "attach", "portforward", "proxy"})
#: subresources whose body is the whole object, with rules of their own
_WHOLE_OBJECT = frozenset({"status", "ephemeralcontainers", "resize", "approval", "finalize"})


class Subresources:
    """Routes `<resource>/<name>/<subresource>`."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        patcher: Patcher,
        pods: PodActions,
        tokens: ServiceAccountTokens,
        pod_log: Callable[[str, str], bytes | None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._patcher = patcher
        self._pods = pods
        self._tokens = tokens
        self._pod_log = pod_log

    def serve(self, request: ApiRequest) -> Result:
        info = request.info
        name = info.subresource
        first = name.partition("/")[0]
        known = request.resource.subresources.get(first)
        if known is None:
            if request.resource.is_custom:
                raise request.resource.not_found(info.name)
            raise status.resource_not_found()
        if first in _UNSUPPORTED:
            raise status.bad_request(f"{first} is not supported by the embedded API server")
        if info.verb not in known.verbs:
            raise self._odd_verb(request)
        if name == "scale":
            return self._scale(request)
        if name in _WHOLE_OBJECT:
            return self._whole(request)
        if name == "log":
            return self._log(request)
        if name == "binding":
            return self._pods.bind(request)
        if name == "eviction":
            return self._pods.evict(request)
        if name == "token":
            return self._token(request)
        raise status.resource_not_found()

    def _odd_verb(self, request: ApiRequest) -> status.StatusError:
        if not request.resource.is_custom:
            return status.method_not_allowed()
        return unsupported_verb(request.resource, request.info.verb)

    # -- the whole object ------------------------------------------------------------------

    def _whole(self, request: ApiRequest) -> Result:
        verb = request.info.verb
        if verb == "get":
            return self._reader.get(request)
        rules = subresource_rules(request.resource.group, request.resource.plural, request.info.subresource)
        if verb == "patch":
            return self._patcher.patch(request, rules)
        return self._update(request, rules)

    async def _update(self, request: ApiRequest, rules: Any) -> Response:
        options = WriteOptions(request, "UpdateOptions")
        obj = parse_object(request, options)
        check_identity(request, obj)
        request.resource.strategy.default(obj)

        async def replace(old: Json | None, context: Context) -> Json:
            return deep_copy(obj)

        return await self._writer.modify(request, options, replace, rules=rules)

    # -- scale -----------------------------------------------------------------------------

    def _view(self, request: ApiRequest) -> ScaleView:
        resource = request.resource
        if resource.is_custom:
            return PathScale(resource.version_spec["subresources"]["scale"])  # type: ignore[attr-defined]
        return scale_for(resource.group, resource.plural)

    async def _scale(self, request: ApiRequest) -> Response:
        view = self._view(request)
        resource = request.resource
        info = request.info
        if info.verb == "get":
            entry = resource.bucket.get(info.namespace, info.name)
            if entry is None:
                raise resource.not_found(info.name)
            [obj] = await resource.read_many([entry])
            return document_response(request, 200, view.read(obj))
        is_patch = info.verb == "patch"
        options = WriteOptions(
            request, "PatchOptions" if is_patch else "UpdateOptions", is_apply=self._is_apply(request)
        )
        body = None if is_patch else parse_as(request, "autoscaling", "v1", "Scale")
        patch = _ScalePatch(request) if is_patch else None

        async def change(old: Json | None, context: Context) -> Json:
            assert old is not None
            shown = view.read(old)
            wanted = body if body is not None else patch.apply(shown) if patch is not None else shown
            replicas = check_scale(wanted, info.name, old)
            obj = deep_copy(old)
            version = (wanted.get("metadata") or {}).get("resourceVersion")
            obj["metadata"]["resourceVersion"] = version or (
                old["metadata"]["resourceVersion"] if is_patch else ""
            )
            view.write(obj, replicas)
            return obj

        _, obj, _ = await self._writer.modify_object(request, options, change, is_patch=True)
        return document_response(request, 200, view.read(obj))

    def _is_apply(self, request: ApiRequest) -> bool:
        return document.media_type(request.http.headers.get("content-type", "")) == APPLY_YAML

    # -- pods and service accounts ---------------------------------------------------------

    def _log(self, request: ApiRequest) -> Response:
        info = request.info
        entry: Entry | None = request.resource.bucket.get(info.namespace, info.name)
        if entry is None:
            raise request.resource.not_found(info.name)
        pod = request.resource.read(entry)
        wanted = request.param("container")
        containers = [each["name"] for each in pod["spec"].get("containers") or ()]
        if wanted and wanted not in containers + [
            each["name"] for each in pod["spec"].get("initContainers") or ()
        ]:
            raise status.bad_request(f"container {wanted} is not valid for pod {info.name}")
        if not wanted and len(containers) > 1:
            raise status.bad_request(
                f"a container name must be specified for pod {info.name}, choose one of: "
                f"[{' '.join(containers)}]"
            )
        text = self._pod_log(info.namespace, info.name) or b""
        return Response(200, text, content_type="text/plain")

    async def _token(self, request: ApiRequest) -> Response:
        WriteOptions(request, "CreateOptions")
        body = parse_as(request, "authentication.k8s.io", "v1", "TokenRequest")
        answer = token_request(
            body,
            request.info.namespace,
            request.info.name,
            reads=self._writer.cluster,
            tokens=self._tokens,
            now=time.time(),
        )
        return document_response(request, 201, answer)


def unsupported_verb(resource: Resource, verb: str) -> status.StatusError:
    """A verb that a custom resource does not have; unknown methods have no verb."""
    return status.StatusError(
        405,
        f'{verb} is not supported on resources of kind "{resource.qualified}"',
        reason="MethodNotAllowed",
        details={"group": resource.group, "kind": resource.plural},
    )


class _ScalePatch:
    """A patch of a Scale: merge (also when strategic), JSON patch or apply."""

    def __init__(self, request: ApiRequest) -> None:
        media = document.media_type(request.http.headers.get("content-type", ""))
        body = request.http.body
        if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_YAML):
            raise unsupported_patch(is_custom=request.resource.is_custom)
        self._is_json_patch = media == JSON_PATCH
        self._patch: Any
        if self._is_json_patch:
            self._patch = jsonpatch.decode(body)
        elif media == APPLY_YAML:
            try:
                self._patch = document.parse_yaml(body)
            except document.ParseError as error:
                raise status.bad_request(f"error decoding YAML: {error}") from None
        else:
            self._patch = merge.decode(body)

    def apply(self, scale: Json) -> Json:
        patched = (
            jsonpatch.apply(scale, self._patch)
            if self._is_json_patch
            else merge.apply(deep_copy(scale), self._patch)
        )
        if not isinstance(patched, dict):
            raise status.bad_request("the patch does not leave a Scale")
        return patched
