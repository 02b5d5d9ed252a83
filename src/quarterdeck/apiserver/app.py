"""One request from start to end: who asks, may they, what do they want, who answers.

The order is upstream's: authentication, impersonation, authorization, then routing. The first three
look at the head alone (`admit`), so that nobody's body is read who may not send it. Reads of stored
objects are answered synchronously; everything else is a coroutine.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from quarterdeck.apiserver.registry.patch.patchbody import check_patch_type
from quarterdeck.apiserver.registry.patch.patcher import Patcher
from quarterdeck.apiserver.registry.read.reader import Reader
from quarterdeck.apiserver.registry.watch.watcher import Watcher
from quarterdeck.apiserver.registry.write.delete import Deleter
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.wire import gostyle
from quarterdeck.wire.http import MIB, Request, Response, Route

from . import status
from .auth import (
    Authenticator,
    Authorizer,
    Impersonator,
    UserInfo,
    forbidden_error,
    request_attributes,
)
from .deadline import time_allowed, within
from .discovery.groups import Discovery
from .document import decoding
from .document.negotiate import PLAIN, Output, accept
from .metadata import path_segment_errors
from .registry.answer import check_include_object, status_response
from .registry.request import ApiRequest, is_set
from .registry.subresource import Subresources, unsupported_verb
from .registry.virtual import VirtualResources
from .registry.warning import Warnings
from .requestinfo import RequestInfo
from .resource.resource import Resource, Superseded
from .resource.resourcetable import ResourceTable
from .storage import StorageError, StorageFull
from .usage import GROUP as USAGE_GROUP
from .usage import VERSION as USAGE_VERSION
from .usage import UsageApi

MAX_BODY: Final = 3 * MIB
_log = logging.getLogger("quarterdeck.apiserver")
Result = Response | Awaitable[Response]
#: paths that answer everybody, as the real server's probes do
_OPEN_PATHS = frozenset({"/livez", "/readyz", "/healthz", "/version"})
NonResource = Callable[[Request, UserInfo], Result | None]


class Peer:
    """The other end of a connection: its verified client certificate, if any."""

    __slots__ = ("certificate", "user")

    def __init__(self, certificate: bytes | None = None, user: UserInfo | None = None) -> None:
        self.certificate = certificate
        #: set for in-process peers, and remembered for a connection's certificate
        self.user = user


class App:
    """The API server as one callable from Request to Response."""

    def __init__(
        self,
        *,
        table: ResourceTable,
        authenticator: Authenticator,
        authorizer: Authorizer,
        reader: Reader,
        writer: Writer,
        patcher: Patcher,
        deleter: Deleter,
        watcher: Watcher,
        subresources: Subresources,
        virtual: VirtualResources,
        discovery: Discovery,
        non_resource: NonResource,
        usage: UsageApi | None = None,
    ) -> None:
        self._table = table
        self._usage = usage
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._impersonator = Impersonator(authorizer)
        self._reader = reader
        self._writer = writer
        self._patcher = patcher
        self._deleter = deleter
        self._watcher = watcher
        self._subresources = subresources
        self._virtual = virtual
        self._discovery = discovery
        self._non_resource = non_resource
        self._route = Route(self.handle, MAX_BODY)

    def __call__(self, request: Request) -> Result:
        """Serve a request that is here as a whole."""
        admitted = self.admit(request)
        return admitted if isinstance(admitted, Response) else self.handle(request)

    def admit(self, request: Request) -> Route | Response:
        """Who asks, and may they? Decided by the head; the body need not be here yet."""
        try:
            watch = "watch" in request.raw_query and is_set(request.query.get("watch"))
            info = RequestInfo(request.method, request.path, watch=watch)
            user = self._authenticate(request, info)
            if not user.is_master:
                self._authorize(request, info, user)
        except status.StatusError as error:
            return self._refused(error, request)
        request.caller = (info, user)
        return self._route

    def handle(self, request: Request) -> Result:
        """Serve a request that was admitted."""
        try:
            return self._handle(request)
        except status.StatusError as error:
            return self._refused(error, request)

    def _refused(
        self, error: status.StatusError, request: Request, warnings: Warnings | None = None
    ) -> Response:
        output = accept(request.headers.get("accept", ""))
        if warnings:
            error.headers = [*error.headers, *warnings.headers()]
        return status_response(error, yaml_wanted=output is not None and output.yaml)

    def on_error(self, error: Exception, request: Request) -> Response:
        """An exception nobody expected: 500 for the client, the traceback for the log."""
        if isinstance(error, RecursionError):  # whatever the step, the document was the reason
            return status_response(status.bad_request("the document is nested too deeply"))
        _log.error("request failed: %s %s", request.method, request.path, exc_info=error)
        return status_response(status.internal(f"{type(error).__name__}: {error}"))

    def _handle(self, request: Request) -> Result:
        info, user = cast("tuple[RequestInfo, UserInfo]", request.caller)
        if request.is_too_large:
            raise status.too_large(f"Request entity too large: limit is {MAX_BODY}")
        if not info.resource:
            return self._serve_path(request, user)
        resource = self._table.get(info.group, info.version, info.resource)
        if resource is None:
            if self._usage is not None and (info.group, info.version) == (USAGE_GROUP, USAGE_VERSION):
                return self._usage.serve(request, info)
            return self._unknown(info)
        api_request = ApiRequest(request, info, resource, user, PLAIN)
        seconds = time_allowed(request, info)
        try:
            result = self._serve_resource(api_request)
        except status.StatusError as error:
            return self._refused(error, request, api_request.warnings)
        if isinstance(result, Response):
            return result
        return within(seconds, self._finish_resource(result, api_request))

    async def _finish_resource(self, pending: Awaitable[Response], api_request: ApiRequest) -> Response:
        try:
            return await pending
        except Superseded:
            return await self._serve_again(api_request)
        except status.StatusError as error:
            return self._refused(error, api_request.http, api_request.warnings)
        except StorageFull as error:
            return self._refused(status.insufficient_storage(str(error)), api_request.http)
        except StorageError as error:
            return self._refused(status.unavailable(str(error)), api_request.http)

    async def _serve_again(self, api_request: ApiRequest) -> Response:
        """Serve a request as if it had come only now: what it is about is defined in another way by now."""
        info, request = api_request.info, api_request.http
        if self._table.get(info.group, info.version, info.resource) is None:
            return self._refused(status.resource_not_found(), request)
        result = self.handle(request)
        return result if isinstance(result, Response) else await result

    def _authenticate(self, request: Request, info: RequestInfo) -> UserInfo:
        peer = request.peer
        assert isinstance(peer, Peer)
        user = peer.user
        if user is None:
            authorization = request.headers.get("authorization")
            try:
                user = self._authenticator.authenticate(peer.certificate, authorization)
            except status.StatusError:
                if info.path in _OPEN_PATHS:
                    return UserInfo("system:anonymous", groups=("system:unauthenticated",))
                raise
        if _impersonates(request.headers):
            attributes = self._attributes(request, info, user)
            return self._impersonator.impersonate(attributes, request.header_items())
        return user

    def _attributes(self, request: Request, info: RequestInfo, user: UserInfo) -> Any:
        return request_attributes(
            user,
            info,
            field_selector=request.param("fieldSelector"),
            label_selector=request.param("labelSelector"),
        )

    def _authorize(self, request: Request, info: RequestInfo, user: UserInfo) -> None:
        if info.path in _OPEN_PATHS:
            return
        attributes = self._attributes(request, info, user)
        decision = self._authorizer.authorize(attributes)
        if not decision.allowed:
            raise forbidden_error(attributes, decision.reason)

    def _serve_path(self, request: Request, user: UserInfo) -> Result:
        path = request.path
        parts = path.strip("/").split("/")
        if request.method != "GET" and self._is_get_only(parts):
            raise status.method_not_allowed()
        if path.startswith("/api"):
            document = self._discovery.serve(request)
            if document is not None:
                return document
            if len(parts) > 1 and parts[0] == "api":
                raise status.resource_not_found()
            if len(parts) > 2 and parts[1] and parts[0] == "apis" and self._table.is_builtin_group(parts[1]):
                raise status.resource_not_found()
        found = self._non_resource(request, user)
        return found if found is not None else page_not_found()

    def _is_get_only(self, parts: list[str]) -> bool:
        """Upstream answers any method on most paths that are no resources, but not on these."""
        if parts[0] == "apis":
            return len(parts) == 3 and self._table.is_builtin_group(parts[1])
        return parts in (["api"], ["api", "v1"], ["version"])

    def _unknown(self, info: RequestInfo) -> Response:
        if self._table.is_builtin_group(info.group):
            raise status.resource_not_found()
        return page_not_found()

    def _serve_resource(self, api_request: ApiRequest) -> Result:
        resource, info = api_request.resource, api_request.info
        api_request.output = self._negotiate(api_request.http, info, resource)
        if resource.namespaced:
            if not info.namespace and (info.name or info.verb not in ("list", "watch")):
                return self._without_namespace(api_request)
        elif info.namespace and resource.plural != "namespaces":
            return self._unknown(info)
        elif resource.plural == "namespaces" and not resource.group:
            info.namespace = ""
        if info.name and (problems := path_segment_errors(info.name)):
            shown = gostyle.quote(info.name)
            raise status.bad_request(f"Name parameter invalid: {shown}: {';'.join(problems)}")
        deprecation = resource.deprecation
        if deprecation and (info.subresource or info.verb in resource.verbs):
            api_request.warn(deprecation)
        is_proxied = info.subresource == "proxy"  # any method is the pod's business
        if api_request.http.method == "HEAD" and not resource.is_custom and not is_proxied:
            raise status.method_not_allowed()
        if info.subresource:
            return self._subresources.serve(api_request)
        if self._virtual.handles(resource):
            return self._virtual.serve(api_request)
        verb = info.verb
        if verb == "get" and info.name:
            return self._reader.get(api_request)
        if verb not in resource.verbs or (verb == "create" and info.name):
            return self._odd_verb(api_request)
        if verb == "list":
            return self._reader.list(api_request)
        if verb == "watch":
            if info.name:  # an old way to watch one object
                api_request.http.set_param("fieldSelector", f"metadata.name={info.name}")
            return self._watcher.watch(api_request)
        if verb == "create":
            return self._writer.create(api_request)
        if verb == "update" and info.name:
            return self._writer.update(api_request)
        if verb == "patch" and info.name:
            return self._patcher.patch(api_request)
        if verb == "delete":
            return self._deleter.delete(api_request)
        if verb == "deletecollection":
            return self._deleter.delete_collection(api_request)
        return self._odd_verb(api_request)

    def _negotiate(self, request: Request, info: RequestInfo, resource: Resource) -> Output:
        header = request.headers.get("accept", "")
        if not header:
            return PLAIN
        output = accept(header, watch=info.verb == "watch", tables="list" in resource.verbs)
        if output is None:
            raise _not_acceptable(header, info.verb, is_custom=resource.is_custom)
        if output.kind == "Table":
            check_include_object(request.param("includeObject"))
        return output

    def _odd_verb(self, request: ApiRequest) -> Result:
        """Verbs a resource does not have; custom resources deviate from built-in ones."""
        info = request.info
        if request.resource.is_custom:
            if info.verb == "create" and info.name:
                return self._writer.create(request)
            if info.verb in ("update", "patch") and not info.name:
                if info.verb == "patch":
                    media = decoding.media_type(request.http.headers.get("content-type", ""))
                    check_patch_type(media, is_custom=True)
                raise status.bad_request("name must be provided")
            raise unsupported_verb(request.resource, info.verb)
        raise status.method_not_allowed()

    def _without_namespace(self, request: ApiRequest) -> Result:
        info = request.info
        if request.resource.is_custom:
            return page_not_found()
        if self._virtual.handles(request.resource):
            return self._virtual.serve(request)
        if info.name:
            raise status.resource_not_found()
        raise status.method_not_allowed()


def _impersonates(headers: Mapping[str, str]) -> bool:
    for name in headers:  # noqa: SIM110  asked of every request: a generator costs more than this
        if name.startswith("impersonate-"):
            return True
    return False


_PRODUCED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMED = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"


def _not_acceptable(header: str, verb: str, *, is_custom: bool) -> status.StatusError:
    """406. Upstream claims protobuf among what it produces, and so its texts name it."""
    is_unstreamed = verb == "watch" and "application/yaml" in header
    if is_custom or ";" in header or is_unstreamed:
        types = _STREAMED if is_unstreamed or (verb == "watch" and not is_custom) else _PRODUCED
        return status.not_acceptable(f"only the following media types are accepted: {types}")
    types = f"{_PRODUCED}, {_STREAMED}" if verb in ("list", "watch") else _PRODUCED
    return status.StatusError(
        406,
        f"406: Not Acceptable\n\nAvailable representations: {types}",
        reason="NotAcceptable",
        details={},
    )


def page_not_found() -> Response:
    return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
