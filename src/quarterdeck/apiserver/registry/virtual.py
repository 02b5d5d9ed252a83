"""Resources that are not stored: reviews are answered, bindings act, component statuses are empty."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.auth import (
    Authenticator,
    Authorizer,
    local_subject_access_review,
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
    token_review,
)
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.registry.answer import document_response, list_document
from quarterdeck.apiserver.registry.body import parse_object
from quarterdeck.apiserver.registry.pod.action import PodActions
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.transient import Posting
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.wire.http import Response
from quarterdeck.wire.wallclock import timestamp

_Answer = Callable[[ApiRequest, Json], Json]


class VirtualResources:
    """Answers requests for resources without storage."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        pods: PodActions,
        admission: AdmissionChain,
        cluster: ClusterState,
    ) -> None:
        self._pods = pods
        self._admission = admission
        self._cluster = cluster
        self._reviews: dict[str, _Answer] = {
            "tokenreviews": lambda request, obj: token_review(obj, authenticator),
            "selfsubjectreviews": lambda request, obj: self_subject_review(request.user, timestamp()),
            "subjectaccessreviews": lambda request, obj: subject_access_review(obj, authorizer),
            "selfsubjectaccessreviews": lambda request, obj: self_subject_access_review(
                obj, request.user, authorizer
            ),
            "localsubjectaccessreviews": lambda request, obj: local_subject_access_review(
                obj, request.info.namespace, authorizer
            ),
            "selfsubjectrulesreviews": lambda request, obj: self_subject_rules_review(
                obj, request.user, authorizer
            ),
        }

    def handles(self, resource: Resource) -> bool:
        return "update" not in resource.verbs and not resource.is_custom

    def serve(self, request: ApiRequest) -> Response | Awaitable[Response]:
        resource = request.resource
        info = request.info
        if (resource.namespaced and not info.namespace) or (info.name and "get" not in resource.verbs):
            raise status.resource_not_found()
        if info.verb not in resource.verbs or (info.verb == "create" and info.name):
            raise status.method_not_allowed()
        if resource.plural == "bindings":
            return self._pods.bind(request)
        if info.verb == "create":
            return self._review(request)
        if info.verb == "list":
            return document_response(request, 200, list_document(request, [], {}))
        raise status.not_found(resource.singular, resource.group, info.name)  # as upstream calls it here

    async def _review(self, request: ApiRequest) -> Response:
        options = WriteOptions.of(request, "CreateOptions")
        resource = request.resource
        assert isinstance(resource, BuiltinResource)
        posting = Posting(request, resource, parse_object(request, options), options, self._cluster)
        document = await posting.mutate(self._admission)
        answer = self._reviews[resource.plural](request, document)
        await posting.validate(self._admission)
        return document_response(request, 201, answer)
