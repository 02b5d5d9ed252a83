"""What can be done to a pod beyond writing it: bind it to a node, evict it."""

from __future__ import annotations

from typing import Any

from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import Attributes, GroupVersionKind
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.builtin import eviction, podsubresource
from quarterdeck.apiserver.builtin.typetable import struct_for
from quarterdeck.apiserver.http import Response
from quarterdeck.apiserver.resource import Resource, decode_problem, is_registered, parse_body
from quarterdeck.apiserver.resourcetable import ResourceTable
from quarterdeck.apiserver.shape import ShapeError, normalize

from .answer import document_response
from .body import as_object
from .delete import DeleteOptions, Deleter
from .request import ApiRequest, WriteOptions
from .write import Context, Writer, timestamp

Json = dict[str, Any]


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
        options = WriteOptions(request, "CreateOptions")
        binding = parse_as(request, "", "v1", "Binding")
        namespace = request.info.namespace
        name = request.info.name or (binding.get("metadata") or {}).get("name", "")
        podsubresource.validate_binding(name, binding)
        binding = await self._admit(request, name, "Binding", binding, options)
        pods = self._pods()

        def assign(pod: Json) -> None:
            self._writer.check_same(pods, pod, binding)
            podsubresource.bind(pod, binding, timestamp())

        if options.dry_run:
            assign(self._stored(pods, namespace, name))
        else:
            await self._writer.update_stored(pods, namespace, name, assign)
        return document_response(request, 201, status.success(code=201))

    async def evict(self, request: ApiRequest) -> Response:
        """POST pods/<name>/eviction: respects disruption budgets, then deletes."""
        options = WriteOptions(request, "CreateOptions")
        document = parse_as(request, "policy", "v1", "Eviction")
        namespace, name = request.info.namespace, request.info.name
        eviction.validate_eviction(name, document)
        document = await self._admit(request, name, "Eviction", document, options)
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
        await self._deleter.delete_object(scoped, name, delete_options)
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

        await self._writer.update_stored(budgets, namespace, changed["metadata"]["name"], take)

    def _pods(self) -> Resource:
        pods = self._table.get("", "v1", "pods")
        assert pods is not None
        return pods

    def _stored(self, pods: Resource, namespace: str, name: str) -> Json:
        entry = pods.bucket.get(namespace, name)
        if entry is None:
            raise pods.not_found(name)
        return pods.read(entry)

    async def _admit(
        self, request: ApiRequest, name: str, kind: str, obj: Json, options: WriteOptions
    ) -> Json:
        subresource = request.info.subresource or "binding"
        if not self._admission.needs_admission("", "pods", subresource, "CREATE"):
            return obj
        attributes = Attributes(
            operation="CREATE",
            group="",
            version="v1",
            kind=kind,
            resource="pods",
            subresource=subresource,
            namespace=request.info.namespace,
            name=name,
            object=obj,
            options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            user=request.user,
            dry_run=options.dry_run,
            context=Context(request, self._writer.cluster, dry_run=options.dry_run),
        )
        if kind == "Eviction":
            attributes.object_kind = GroupVersionKind("policy", "v1", kind)
        await self._admission.mutate(attributes)
        await self._admission.validate(attributes)
        return attributes.object or obj


def _mark_evicted(pod: Json) -> None:
    eviction.mark_evicted(pod, timestamp())


def parse_as(request: ApiRequest, group: str, version: str, kind: str) -> Json:
    """The body as a document of a kind that is not the resource's own (Binding, Eviction, Scale)."""
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
    return document
