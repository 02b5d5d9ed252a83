"""What can be done to a pod beyond writing it: bind it to a node, evict it."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.builtin.pod import eviction
from quarterdeck.apiserver.builtin.pod import subresource as podsubresource
from quarterdeck.apiserver.registry.answer import document_response
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.change import check_uid
from quarterdeck.apiserver.registry.write.delete import DeleteOptions, Deleter
from quarterdeck.apiserver.registry.write.transient import Posting, parse_as, transient_kind
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.wire.http import Response
from quarterdeck.wire.wallclock import timestamp


class PodActions:
    """Binding and eviction."""

    def __init__(
        self, table: ResourceTable, writer: Writer, deleter: Deleter, admission: AdmissionChain
    ) -> None:
        self._table = table
        self._writer = writer
        self._deleter = deleter
        self._admission = admission

    async def bind(self, request: ApiRequest) -> Response:
        """POST bindings or pods/<name>/binding."""
        options = WriteOptions.of(request, "CreateOptions")
        posting = self._posting(request, "", "v1", "Binding", options)
        binding = await posting.mutate(self._admission)
        namespace = request.info.namespace
        name = request.info.name or (binding.get("metadata") or {}).get("name", "")
        podsubresource.validate_binding(name, binding)
        await posting.validate(self._admission)
        pods = self._pods()

        def assign(pod: Json) -> None:
            check_uid(pods, binding.get("metadata") or {}, pod["metadata"])
            podsubresource.bind(pod, binding, timestamp())

        if options.dry_run:
            assign(self._stored(pods, namespace, name))
        else:
            await self._writer.update_stored(pods, namespace, name, assign)
        return document_response(request, 201, status.success(code=201))

    def _posting(
        self, request: ApiRequest, group: str, version: str, kind: str, options: WriteOptions
    ) -> Posting:
        document = parse_as(request, group, version, kind)
        return Posting(request, transient_kind(group, version, kind), document, options, self._writer.cluster)

    async def evict(self, request: ApiRequest) -> Response:
        """POST pods/<name>/eviction: respects disruption budgets, then deletes."""
        options = WriteOptions.of(request, "CreateOptions")
        posting = self._posting(request, "policy", "v1", "Eviction", options)
        document = await posting.mutate(self._admission)
        namespace, name = request.info.namespace, request.info.name
        eviction.validate_eviction(name, document)
        await posting.validate(self._admission)
        pods = self._pods()
        pod = self._stored(pods, namespace, name)
        given = dict(document.get("deleteOptions") or {})
        if options.dry_run:
            given["dryRun"] = ["All"]
        delete_options = DeleteOptions(given)
        await self._respect_budgets(pod, namespace, dry_run=delete_options.dry_run)
        delete_options.check_preconditions(pods, pod)  # a pod that is not evicted must not look as if
        if not delete_options.dry_run:
            await self._writer.update_stored(pods, namespace, name, lambda stored: _mark_evicted(stored))
        scoped = request.for_object(namespace, name)
        scoped.resource = pods
        # the eviction was admitted; the delete it leads to is not asked about
        await self._deleter.delete_object(scoped, name, delete_options, is_admitted=True)
        return document_response(request, 201, status.success(code=201))

    async def _respect_budgets(self, pod: Json, namespace: str, *, dry_run: bool) -> None:
        budgets = self._table.get("policy", "v1", "poddisruptionbudgets")
        if budgets is None:
            return
        stored = [budgets.read(entry) for entry in budgets.bucket.scan(namespace)]
        changed = eviction.check_budgets(pod, stored, timestamp()) if stored else None
        if changed is None or dry_run:
            return

        def take(budget: Json) -> None:
            # asked again on the stored budget: another eviction may have been faster
            fresh = eviction.check_budgets(pod, [budget], timestamp())
            if fresh is not None:
                budget["status"] = fresh["status"]

        budget_name = changed["metadata"]["name"]
        await self._writer.update_stored(budgets, namespace, budget_name, take, owns_status=True)

    def _pods(self) -> Resource:
        pods = self._table.get("", "v1", "pods")
        assert pods is not None
        return pods

    def _stored(self, pods: Resource, namespace: str, name: str) -> Json:
        entry = pods.bucket.get(namespace, name)
        if entry is None:
            raise pods.not_found(name)
        return pods.read(entry)


def _mark_evicted(pod: Json) -> None:
    eviction.mark_evicted(pod, timestamp())
