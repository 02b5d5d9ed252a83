"""Create, update, patch and apply: one pipeline for every resource.

A write decodes, defaults, records field ownership, runs mutating admission, lets the kind
prepare and validate, runs validating admission and commits against the revision it read. The steps
are in `create` and `change`; here are the doors that requests come in by.
"""

from __future__ import annotations

from collections.abc import Callable

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.auth import Authorizer
from quarterdeck.apiserver.registry.answer import entry_response, object_response
from quarterdeck.apiserver.registry.body import check_identity, parse_object
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.admit import Projection, WriteAdmission
from quarterdeck.apiserver.registry.write.change import Changer, Manner, Transform
from quarterdeck.apiserver.registry.write.commit import Commits
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.registry.write.create import Creator
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.storage import Entry, Store, WriteConflict
from quarterdeck.wire.http import Response
from quarterdeck.wire.jsonvalue import deep_copy

_PUT = Manner(creates_missing=True)


class Writer:
    """Runs writes against the store."""

    def __init__(
        self, store: Store, admission: AdmissionChain, cluster: ClusterState, authorizer: Authorizer
    ) -> None:
        self.cluster = cluster
        self._commits = Commits(store)
        self._admission = WriteAdmission(admission, authorizer)
        namespaces = store.bucket("", "namespaces", namespaced=False)
        self._creator = Creator(self._commits, self._admission, namespaces)
        self._changer = Changer(self._commits, self._admission, self._creator, cluster)

    async def create(self, request: ApiRequest) -> Response:
        options = WriteOptions.of(request, "CreateOptions")
        obj = parse_object(request, options)
        with Context(request, self.cluster, dry_run=options.dry_run) as context:
            try:
                entry, obj = await self._creator.create(context, options, obj)
            except WriteConflict as taken:
                resource = request.resource
                is_deleting = await _is_known_to_be_deleted(resource, taken.current)
                raise status.already_exists(
                    resource.plural, resource.group, taken.name, is_deleting=is_deleting
                ) from None
        return await _response(request, 201, entry, obj)

    async def update(self, request: ApiRequest, manner: Manner = _PUT) -> Response:
        """PUT of an object or of a subresource that shows the whole of it."""
        options = WriteOptions.of(request, "UpdateOptions")
        obj = parse_object(request, options)
        check_identity(request, obj)
        request.resource.strategy.default(obj)

        async def replace(old: Json | None, context: Context) -> Json:
            return deep_copy(obj)

        return await self.modify(request, options, replace, manner)

    async def modify(
        self, request: ApiRequest, options: WriteOptions, transform: Transform, manner: Manner
    ) -> Response:
        """Read, transform, check and store until nobody interferes; answers with the new object."""
        entry, obj, code = await self._changer.modify(request, options, transform, manner)
        return await _response(request, code, entry, obj)

    async def modify_as(
        self, request: ApiRequest, options: WriteOptions, transform: Transform, projection: Projection
    ) -> Json:
        """Change an object through a subresource that shows it as another kind; returns the object."""
        _, obj, _ = await self._changer.modify(request, options, transform, Manner(projection=projection))
        return obj

    async def mutate_as(
        self, context: Context, options: WriteOptions, projection: Projection, new: Json, old: Json
    ) -> Json:
        """Mutating admission of what a subresource shows; returns the object it leaves."""
        return await self._admission.mutate_as(context, options, projection, new, old)

    async def update_stored(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Json], None],
        *,
        owns_status: bool = False,
    ) -> Json:
        """Change a stored object for the server itself, without admission; see `Commits`."""
        return await self._commits.update_stored(resource, namespace, name, change, owns_status=owns_status)


async def _is_known_to_be_deleted(resource: Resource, entry: Entry | None) -> bool:
    """Whether an object is being deleted; what cannot be converted is not known to be, as upstream."""
    if entry is None or not entry.is_deleting:
        return False
    try:
        await resource.read_many([entry])
    except status.StatusError:
        return False
    return True


async def _response(request: ApiRequest, code: int, entry: Entry | None, obj: Json) -> Response:
    """The stored entry as it lies there, where that is what the client is to see; otherwise the object."""
    resource = request.resource
    if entry is not None:
        if resource.needs_webhook(entry):  # which may have changed it on the way
            [obj] = await resource.read_many([entry])
        elif resource.raw_body(entry) is not None:
            return entry_response(request, code, entry)
    return object_response(request, code, obj)
