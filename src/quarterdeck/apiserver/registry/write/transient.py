"""What is posted to act and is never stored: reviews, bindings, evictions, token requests.

Such a document is owned and admitted like an object that is created. The kinds themselves, and Scale, are
kinds without storage: `transient_kind` is a resource of one for everything that works on resources.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import GroupVersionKind
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy
from quarterdeck.apiserver.document.shape import ShapeError, normalize
from quarterdeck.apiserver.document.typetable import struct_for
from quarterdeck.apiserver.registry.body import as_object, check_namespace
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.admit import attributes_of
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.resource.resource import decode_problem, is_registered, parse_body
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.storage import Bucket


@cache
def transient_kind(group: str, version: str, kind: str) -> BuiltinResource:
    """A kind as if it were a resource of its own."""
    return BuiltinResource(
        struct=struct_for(group, version, kind),
        group=group,
        version=version,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        namespaced=True,
        verbs=(),
        bucket=cast("Bucket", None),  # nothing of the kind is stored
        strategy=BuiltinStrategy(),
    )


def parse_as(request: ApiRequest, group: str, version: str, kind: str) -> Json:
    """The body as a document of a kind that is not the resource's own (Binding, Eviction, ...)."""
    http = request.http
    parsed, _ = parse_body(http.headers.get("content-type", ""), http.body, kind, is_custom=False)
    parsed = as_object(parsed, kind, http.body)
    expected = f"{group}/{version}" if group else version
    parsed["kind"] = given = parsed.get("kind") or kind
    parsed["apiVersion"] = api_version = parsed.get("apiVersion") or expected
    is_older = given == kind and is_registered(api_version, kind)
    if (given, api_version) != (kind, expected) and not is_older:
        raise status.bad_request(
            f'{given} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind}: '
            + decode_problem(group, kind, api_version, given)
        )
    try:
        document, _ = normalize(parsed, struct_for(group, version, kind))
    except ShapeError as error:
        raise status.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        ) from None
    return {**document, "kind": kind, "apiVersion": expected}


class Posting:
    """One document on its way through ownership and admission."""

    def __init__(
        self,
        request: ApiRequest,
        kind: BuiltinResource,
        document: Json,
        options: WriteOptions,
        cluster: ClusterState,
    ) -> None:
        """`kind` is that of the document, `request.resource` what it is posted to."""
        resource, info = request.resource, request.info
        check_namespace(request, document)
        self._kind = kind
        self._context = Context(request, cluster, dry_run=options.dry_run)
        kind.field_manager.update(
            None,
            document,
            manager=options.field_manager,
            api_version=kind.api_version,
            subresource=info.subresource,
            now=self._context.now,
        )
        self.document = document
        self._attributes = attributes_of(self._context, options, "CREATE", document)
        if kind is not resource:
            self._attributes.object_kind = GroupVersionKind(kind.group, kind.version, kind.kind)

    async def mutate(self, chain: AdmissionChain) -> Json:
        """Mutating admission; returns the document it leaves."""
        if self._is_needed(chain) and await chain.mutate(self._attributes):
            assert self._attributes.object is not None
            self.document, _ = self._kind.decode(self._attributes.object)
        return self.document

    async def validate(self, chain: AdmissionChain, document: Json | None = None) -> None:
        """Validating admission, of `document` where it was completed since; raises StatusError."""
        if self._is_needed(chain):
            self._attributes.object = document or self.document
            await chain.validate(self._attributes)

    def _is_needed(self, chain: AdmissionChain) -> bool:
        at = self._attributes
        return chain.needs_admission(at.group, at.resource, at.subresource, at.operation, at.user)
