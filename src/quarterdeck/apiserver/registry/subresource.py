"""Subresources: status, scale, and the special ones of pods, namespaces and service accounts."""

from __future__ import annotations

from collections.abc import Awaitable

from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.auth import ServiceAccountTokens, token_request
from quarterdeck.apiserver.auth.tokenrequest import DEFAULT_LIFETIME
from quarterdeck.apiserver.builtin.catalog import subresource_strategy
from quarterdeck.apiserver.registry.answer import document_response
from quarterdeck.apiserver.registry.patch.patcher import Patcher
from quarterdeck.apiserver.registry.pod.action import PodActions
from quarterdeck.apiserver.registry.pod.log import LogText, serve_log
from quarterdeck.apiserver.registry.pod.stream import KINDS, PodStreams
from quarterdeck.apiserver.registry.read.reader import Reader
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.scale.scaling import Scaling
from quarterdeck.apiserver.registry.write.change import Manner
from quarterdeck.apiserver.registry.write.transient import Posting, parse_as, transient_kind
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.wire import wallclock
from quarterdeck.wire.http import Response

Result = Response | Awaitable[Response]
_UNSUPPORTED = frozenset({"exec", "attach", "portforward", "proxy"})
_PROXIED = frozenset({"pods", "services"})
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
        admission: AdmissionChain,
        tokens: ServiceAccountTokens,
        pod_log: LogText,
        streams: PodStreams,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._patcher = patcher
        self._pods = pods
        self._admission = admission
        self._tokens = tokens
        self._pod_log = pod_log
        self._streams = streams
        self._scaling = Scaling(writer)

    def serve(self, request: ApiRequest) -> Result:
        info = request.info
        name = info.subresource
        first = name.partition("/")[0]
        known = request.resource.subresources.get(first)
        if known is None:
            if request.resource.is_custom:
                raise request.resource.not_found(info.name)
            raise status.resource_not_found()
        if name in KINDS:
            return self._streams.serve(request)
        if name == "proxy" and request.resource.plural in _PROXIED:
            return self._streams.proxy.serve(request)
        if first in _UNSUPPORTED:
            if request.resource.bucket.get(info.namespace, info.name) is None:
                raise request.resource.not_found(info.name)
            raise status.bad_request(f"{first} is not supported by the embedded API server")
        if info.verb not in known.verbs:
            raise self._odd_verb(request)
        if name == "scale":
            return self._scaling.serve(request)
        if name in _WHOLE_OBJECT:
            return self._whole(request)
        if name == "log":
            return serve_log(request, self._pod_log, self._streams.nodes)
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

    def _whole(self, request: ApiRequest) -> Result:
        verb = request.info.verb
        if verb == "get":
            return self._reader.get(request)
        rules = subresource_strategy(
            request.resource.group, request.resource.plural, request.info.subresource
        )
        if verb == "patch":
            return self._patcher.patch(request, rules)
        return self._writer.update(request, Manner(rules=rules))

    async def _token(self, request: ApiRequest) -> Response:
        options = WriteOptions.of(request, "CreateOptions")
        kind = transient_kind("authentication.k8s.io", "v1", "TokenRequest")
        body = parse_as(request, kind.group, kind.version, kind.kind)
        spec = body.setdefault("spec", {})
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = DEFAULT_LIFETIME
        posting = Posting(request, kind, body, options, self._writer.cluster)
        answer = token_request(
            await posting.mutate(self._admission),
            request.info.namespace,
            request.info.name,
            reads=self._writer.cluster,
            tokens=self._tokens,
            now=wallclock.now(),
        )
        # who is asked does not get to see the token
        asked = {**answer, "status": {"token": "", "expirationTimestamp": None}}
        await posting.validate(self._admission, asked)
        return document_response(request, 201, answer)


def unsupported_verb(resource: Resource, verb: str) -> status.StatusError:
    """A verb that a custom resource does not have; unknown methods have no verb."""
    return status.StatusError(
        405,
        f'{verb} is not supported on resources of kind "{resource.qualified}"',
        reason="MethodNotAllowed",
        details={"group": resource.group, "kind": resource.plural},
    )
