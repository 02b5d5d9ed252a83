"""The surroundings of one trainer case: namespaces of its own, objects as documents, and who writes them.

Cases say `default`; each runs in a namespace of its own instead. Cluster-wide objects keep their names, so
cases run one after the other and clean up behind themselves.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from quarterdeck.api import GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s import CustomResourceDefinition, Namespace
from quarterdeck.client import Client, Response
from quarterdeck.client.warning import parse_warning
from quarterdeck.errors import ApiError, NoKindMatch
from tests.harness.case import Case, CaseFailure

from .server import BYPASS, MASTERS, TrainerServer

Json = dict[str, Any]

_numbers: Final = itertools.count()
_UID: Final = re.compile(r"\$\{uid:([^/}]+)/([^/}]*)/([^}]+)\}")
_KINDS: Final = {
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "Job": "batch/v1",
    "PodGroup": "scheduling.x-k8s.io/v1alpha1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
}
"""Kinds that cases name without a version; others are of the core group."""
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_USER: Final = "case-user"


class Outcome(msgspec.Struct, frozen=True):
    """What became of a request."""

    code: int
    document: Json
    message: str = ""
    causes: tuple[tuple[str, str], ...] = ()
    """Field and text of every error, where the server tells them apart."""
    warnings: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether nothing was done."""
        return self.code >= 300


class CaseObjects:
    """One case's view of the server."""

    def __init__(self, server: TrainerServer, case: Case) -> None:
        self.server: Final = server
        self.client: Final = server.client
        self._bypass: Final = server.cluster.link(user=BYPASS, groups=(MASTERS,), name="bypass").client
        prefix = f"t{next(_numbers)}-{secrets.token_hex(3)}"
        self.namespaces: Final = {name: f"{prefix}-{name}" for name in sorted(_namespaces_in(case.raw))}
        self._cluster_wide: Final[list[str]] = []

    async def open(self) -> None:
        """Make the namespaces."""
        for name in self.namespaces.values():
            await self.client.create(Namespace(metadata=ObjectMeta(name=name)))

    async def close(self) -> None:
        """Remove what is not in a namespace."""
        for path in reversed(self._cluster_wide):
            await self.force_delete(path)

    def namespace(self, name: str | None) -> str:
        """Where the objects of a namespace of the case really are."""
        return self.namespaces[name or "default"]

    def real(self, document: Json) -> Json:
        """An object of the case, in its real namespace."""
        made: Json = copy.deepcopy(document)
        metadata = made.setdefault("metadata", {})
        if metadata.get("namespace"):
            metadata["namespace"] = self.namespace(metadata["namespace"])
        return made

    async def path(self, ref: Json) -> str:
        """The path of an object, given itself or `apiVersion`, `kind`, `name` and `namespace`."""
        metadata = ref.get("metadata") or ref
        return f"{await self.collection(ref)}/{quote(metadata['name'])}"

    async def collection(self, ref: Json) -> str:
        """The path of the objects of a kind; raises `CaseFailure` for a kind that nobody serves."""
        version = ref.get("apiVersion") or _KINDS.get(ref["kind"], "v1")
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            mapping = await self.client.mapper.mapping(GroupVersionKind.parse(version, ref["kind"]))
        except NoKindMatch as error:
            raise CaseFailure(str(error)) from error
        if not mapping.is_namespaced:
            return f"{root}/{mapping.gvr.resource}"
        metadata = ref.get("metadata") or ref
        return f"{root}/namespaces/{self.namespace(metadata.get('namespace'))}/{mapping.gvr.resource}"

    async def resource(self, kind: str) -> str:
        """A kind as fault plans name it: `jobsets.jobset.x-k8s.io`."""
        gvk = GroupVersionKind.parse(_KINDS.get(kind, "v1"), kind)
        mapping = await self.client.mapper.mapping(gvk)
        return f"{mapping.gvr.resource}.{gvk.group}" if gvk.group else mapping.gvr.resource

    async def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        manager: str = "",
        is_merge: bool = False,
        bypasses: bool = False,
        query: Mapping[str, str] | None = None,
    ) -> Outcome:
        """One request, as a user or as somebody whom webhooks do not see."""
        client = self._bypass if bypasses else self.client
        pairs = {"fieldManager": manager or _USER} if method in ("POST", "PUT", "PATCH") else {}
        try:
            response = await client.rest.request(
                method,
                path,
                query=urlencode({**pairs, **(query or {})}),
                headers=(("accept", _JSON), ("content-type", _MERGE if is_merge else _JSON)),
                body=json.dumps(body).encode() if body is not None else b"",
            )
        except ApiError as error:
            causes = tuple((cause.field, cause.message) for cause in error.details.causes)
            return Outcome(error.code, {}, error.message, causes)
        return Outcome(response.status, _document(response), warnings=_warnings(response))

    async def create(self, document: Json, *, bypasses: bool = False) -> Outcome:
        """POST an object of the case."""
        made = await self.resolved(self.real(document))
        path = await self.collection(document)
        if not (document.get("metadata") or {}).get("namespace"):
            self._cluster_wide.append(await self.path(document))
        return await self._unchecked("POST", path, made, bypasses=bypasses)

    async def replace(self, document: Json, *, version: str = "", bypasses: bool = False) -> Outcome:
        """PUT an object over the one that exists, or over the version that was read."""
        path = await self.path(document)
        made = await self.resolved(self.real(document))
        made["metadata"]["resourceVersion"] = (
            version or (await self.read(document))["metadata"]["resourceVersion"]
        )
        return await self._unchecked("PUT", path, made, bypasses=bypasses)

    async def patch(
        self, ref: Json, patch: Json, *, status: bool = False, manager: str = "", bypasses: bool = False
    ) -> Outcome:
        """A merge patch of an object or of its status."""
        path = f"{await self.path(ref)}/status" if status else await self.path(ref)
        body = await self.resolved(patch)
        return await self._unchecked("PATCH", path, body, manager=manager, is_merge=True, bypasses=bypasses)

    async def _unchecked(self, method: str, path: str, body: Json, *, bypasses: bool, **how: Any) -> Outcome:
        """A write; one past admission is not stopped by the rules of a definition either."""
        outcome = await self.request(method, path, body, bypasses=bypasses, **how)
        if not bypasses or outcome.code != 422:
            return outcome
        async with without_rules(self.client, path):
            return await self.request(method, path, body, bypasses=True, **how)

    async def delete(self, ref: Json, propagation: str) -> Outcome:
        """DELETE an object; without a propagation as the kind has it."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options = {**body, "propagationPolicy": propagation} if propagation else body
        return await self.request("DELETE", await self.path(ref), options)

    async def force_delete(self, path: str) -> None:
        """Remove finalizers, then delete."""
        free = {"metadata": {"finalizers": None}}
        await self.request("PATCH", path, free, is_merge=True, bypasses=True)
        await self.request("DELETE", path, bypasses=True)
        await self.request("PATCH", path, free, is_merge=True, bypasses=True)

    async def read(self, ref: Json) -> Json:
        """GET an object; empty if it is not there."""
        outcome = await self.request("GET", await self.path(ref))
        if outcome.is_refused and outcome.code != 404:
            raise CaseFailure(f"reading {ref}: {outcome.message}")
        return outcome.document

    async def list(self, ref: Json, selector: Mapping[str, str] | None = None) -> list[Json]:
        """The objects of a kind and namespace, by labels."""
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in (selector or {}).items())}
        outcome = await self.request("GET", await self.collection(ref), query=query)
        if outcome.is_refused:
            raise CaseFailure(f"listing {ref['kind']}: {outcome.message}")
        items: list[Json] = outcome.document.get("items") or []
        return items

    async def resolved(self, value: Any) -> Any:
        """A document with `${uid:Kind/namespace/name}` replaced by what is there now."""
        if isinstance(value, dict):
            return {key: await self.resolved(each) for key, each in value.items()}
        if isinstance(value, list):
            return [await self.resolved(each) for each in value]
        match = _UID.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return value
        found = await self.read({"kind": match[1], "namespace": match[2] or "default", "name": match[3]})
        return (found.get("metadata") or {}).get("uid", "nobody")


def refers_to_uids(value: Any) -> bool:
    """Whether a document can be made only after the objects it names."""
    if isinstance(value, dict):
        return any(refers_to_uids(each) for each in value.values())
    if isinstance(value, list):
        return any(refers_to_uids(each) for each in value)
    return isinstance(value, str) and _UID.fullmatch(value) is not None


def _namespaces_in(value: Any) -> set[str]:
    found = {"default"}
    for each in _maps_in(value):
        if isinstance(each.get("namespace"), str) and each["namespace"]:
            found.add(each["namespace"])
    return found


def _maps_in(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _maps_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _maps_in(each)


def _document(response: Response) -> Json:
    document: Json = json.loads(response.body) if response.body else {}
    return document


def _warnings(response: Response) -> tuple[str, ...]:
    values = response.header_values("warning")
    return tuple(text for value in values for text in parse_warning(value))


class without_rules:  # noqa: N801  used as a function
    """A definition without its CEL rules for the time of a block; schemas and defaults stay."""

    def __init__(self, client: Client, path: str) -> None:
        self._client: Final = client
        parts = path.split("/")
        group = parts[2] if parts[1] == "apis" else ""
        resource = parts[6] if "namespaces" in parts[:5] else parts[4]
        self._name: Final = f"{resource}.{group}"
        self._before: CustomResourceDefinition | None = None

    async def __aenter__(self) -> None:
        with suppress(ApiError):  # a built-in kind: there is nothing to switch off
            self._before = await self._client.get(CustomResourceDefinition, self._name)
            document = self._before.to_dict()
            _strip_rules(document["spec"])
            await self._client.update(CustomResourceDefinition.from_dict(document))

    async def __aexit__(self, *_: object) -> None:
        if self._before is not None:
            present = await self._client.get(CustomResourceDefinition, self._name)
            await self._client.update(present.evolve(spec=self._before.spec))


def _strip_rules(value: Any) -> None:
    for each in _maps_in(value):
        each.pop("x-kubernetes-validations", None)
