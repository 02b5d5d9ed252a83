"""What stands between a wanted object and the store: admission, and that nobody grants what they lack."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes, GroupVersionKind
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.auth import Authorizer, escalation_error, request_attributes
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.context import Context

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}


def attributes_of(
    context: Context, options: WriteOptions, operation: str, obj: Json, old: Json | None = None
) -> Attributes:
    """What admission is told of a request that writes `obj`."""
    resource, info = context.request.resource, context.request.info
    return Attributes(
        operation=operation,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        resource=resource.plural,
        subresource=info.subresource,
        namespace=info.namespace if resource.namespaced else "",
        name=info.name or (obj.get("metadata") or {}).get("name", ""),
        namespaced=resource.namespaced,
        object=obj,
        old_object=old,
        options=options.document(_OPTIONS[operation]),
        user=context.request.user,
        dry_run=options.dry_run,
        context=context,
    )


class Projection(NamedTuple):
    """A subresource that shows an object as another kind: that is what admission gets to see."""

    kind: GroupVersionKind
    read: Callable[[Json], Json]


class WriteAdmission:
    """Runs a write through the admission chain."""

    def __init__(self, chain: AdmissionChain, authorizer: Authorizer) -> None:
        self._chain = chain
        self._authorizer = authorizer

    def attributes(
        self,
        context: Context,
        options: WriteOptions,
        operation: str,
        obj: Json,
        old: Json | None = None,
        projection: Projection | None = None,
    ) -> Attributes | None:
        """What admission is asked about; None where nobody would look at it."""
        request = context.request
        resource, info = request.resource, request.info
        key = (resource.group, resource.plural, info.subresource, operation)
        if not self._chain.needs_admission(*key, request.user):
            return None
        attributes = attributes_of(context, options, operation, obj, old)
        if projection is not None:
            attributes.object_kind = projection.kind
            attributes.old_object = projection.read(old) if old is not None else None
        return attributes

    async def mutate(self, attributes: Attributes, request: ApiRequest) -> Json:
        """Run mutating admission; a changed object is decoded and defaulted again."""
        resource = request.resource
        if await self._chain.mutate(attributes) and attributes.object is not None:
            obj, _ = resource.decode(attributes.object)
            resource.strategy.default(obj)
            attributes.object = obj
        assert attributes.object is not None
        return attributes.object

    async def mutate_as(
        self, context: Context, options: WriteOptions, projection: Projection, new: Json, old: Json
    ) -> Json:
        """Mutating admission of what a subresource shows; returns the object it leaves."""
        attributes = self.attributes(context, options, "UPDATE", new, None, projection)
        if attributes is None:
            return new
        attributes.old_object = old
        await self._chain.mutate(attributes)
        return attributes.object or new

    async def validate(self, attributes: Attributes | None, obj: Json) -> None:
        """Run validating admission on what is about to be stored."""
        if attributes is not None:
            attributes.object = obj
            await self._chain.validate(attributes)

    def check_may_create(self, request: ApiRequest) -> None:
        """An update or apply that creates needs both permissions."""
        if not request.user.is_master:
            info = copy(request.info)
            info.verb = "create"
            self._authorizer.check(request_attributes(request.user, info))

    def check_escalation(self, request: ApiRequest, obj: Json, old: Json | None) -> None:
        """Nobody grants what they do not hold."""
        resource = request.resource
        if resource.group != "rbac.authorization.k8s.io" or request.user.is_master:
            return
        error = escalation_error(
            self._authorizer,
            request.user,
            resource.plural,
            request.info.namespace,
            obj,
            old,
            request_name=request.info.name,
        )
        if error is not None:
            raise error
