"""A transport that stands for an API server, made to go wrong on purpose.

It speaks list, watch (with history, bookmarks, initial events) and the plain verbs on one in-memory
collection per resource, with one global version. It injects the faults of the runtime's unit
tests: streams can be cut, silenced, or fed an error; requests can be refused by a plan. What objects mean
(validation, defaults, ownership) is the embedded server's business, not this one's.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from quarterdeck.client import Headers, Response, Stream, apply_json_patch, apply_merge_patch
from quarterdeck.errors import ConnectError, SchemaError, StreamClosed

PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
Doc = dict[str, Any]


def status(code: int, reason: str, message: str = "", **details: Any) -> Doc:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
        "details": details,
    }


class Call:
    """One request as the server saw it."""

    def __init__(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> None:
        self.method = method
        self.path = path
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body
        found = PATH.fullmatch(path)
        assert found is not None, path
        self.resource: str = found["resource"]
        self.namespace: str = found["namespace"] or ""
        self.name: str = found["name"] or ""
        self.subresource: str = found["sub"] or ""

    @property
    def verb(self) -> str:
        if self.method == "GET":
            if self.query.get("watch") == "true":
                return "watch"
            return "get" if self.name else "list"
        if self.method == "PATCH" and "apply" in self.headers.get("content-type", ""):
            return "apply"
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[self.method]

    @property
    def label(self) -> str:
        return f"{self.verb} {self.resource}"


Fault = Callable[[Call], Doc | Exception | None]


class OpenWatch:
    """A watch some client holds."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.is_silent = False

    def send(self, kind: str, obj: Doc) -> None:
        if not self.is_silent:
            self.queue.put_nowait(msgspec.json.encode({"type": kind, "object": obj}) + b"\n")

    def end(self, error: Exception | None = None) -> None:
        if not self.is_silent:
            self.queue.put_nowait(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            item = await self.queue.get()
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item


class FakeApi:
    """Implements ``quarterdeck.client.Transport``."""

    def __init__(self, *, kinds: dict[str, str] | None = None) -> None:
        self.kinds = {"widgets": "Widget", "pods": "Pod", "configmaps": "ConfigMap", **(kinds or {})}
        self.version = 100
        self.objects: dict[str, dict[tuple[str, str], Doc]] = {}
        self.history: list[tuple[int, str, str, Doc]] = []
        self.oldest = 0
        self.calls: list[Call] = []
        self.watches: list[OpenWatch] = []
        self.faults: list[Fault] = []
        self.streams_lists = True
        self.page_limit = True
        self.delay = 0.0
        self.watch_delay = 0.0
        self.missing: set[str] = set()
        self.uid = 0

    def put(self, resource: str, name: str, namespace: str = "ns", **fields: Any) -> Doc:
        """Create or replace an object behind everybody's back."""
        key = (namespace, name)
        old = self.objects.get(resource, {}).get(key)
        metadata = dict(fields.pop("metadata", {}))
        metadata |= {"name": name, "uid": old["metadata"]["uid"] if old else self.next_uid()}
        if namespace:
            metadata["namespace"] = namespace
        metadata.setdefault("generation", 1)
        doc = {"apiVersion": self.api_version(resource), "kind": self.kinds[resource], "metadata": metadata}
        return self.store(resource, doc | fields, "MODIFIED" if old else "ADDED")

    def remove(self, resource: str, name: str, namespace: str = "ns") -> None:
        doc = self.objects[resource].pop((namespace, name))
        self.version += 1
        doc = {**doc, "metadata": {**doc["metadata"], "resourceVersion": str(self.version)}}
        self.publish("DELETED", resource, doc)

    def api_version(self, resource: str) -> str:
        return "example.com/v1" if resource == "widgets" else "v1"

    def next_uid(self) -> str:
        self.uid += 1
        return f"uid-{self.uid}"

    def bookmark(self, resource: str) -> None:
        self.version += 1
        for watch in self.open(resource):
            watch.send("BOOKMARK", self.bookmark_doc(resource))

    def bookmark_doc(self, resource: str, **annotations: str) -> Doc:
        metadata: Doc = {"resourceVersion": str(self.version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return {"kind": self.kinds[resource], "apiVersion": self.api_version(resource), "metadata": metadata}

    def cut(self, resource: str = "", error: Exception | None = None) -> int:
        """End open watches, cleanly or with an error of the connection."""
        ended = self.open(resource)
        for watch in ended:
            watch.end(error)
            self.watches.remove(watch)
        return len(ended)

    def black_hole(self, resource: str = "") -> None:
        """The connections look open and nothing ever arrives again."""
        for watch in self.open(resource):
            watch.is_silent = True
            self.watches.remove(watch)

    def fail_streams(self, resource: str, error: Doc) -> None:
        for watch in self.open(resource):
            watch.send("ERROR", error)
            watch.end()
            self.watches.remove(watch)

    def compact(self) -> None:
        """Forget history: watches from older versions get 410."""
        self.oldest = self.version
        self.history.clear()

    def refuse(self, label: str, error: Doc | Exception, times: int = 1) -> None:
        """Refuse the next requests of a verb and resource: ``refuse("list pods", status(403, …))``."""
        left = times

        def fault(call: Call) -> Doc | Exception | None:
            nonlocal left
            if call.label != label or left <= 0:
                return None
            left -= 1
            return error

        self.faults.append(fault)

    def open(self, resource: str = "") -> list[OpenWatch]:
        return [watch for watch in self.watches if not resource or watch.call.resource == resource]

    def count(self, label: str) -> int:
        return Counter(call.label for call in self.calls)[label]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        call = Call(method, path, query, headers, body)
        if self.delay:
            await asyncio.sleep(self.delay)
        code, doc = self.answer(call)
        return Response(code, msgspec.json.encode(doc), (("content-type", "application/json"),))

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        call = Call(method, path, query, headers, body)
        if self.delay:
            await asyncio.sleep(self.delay)
        if call.verb == "watch":
            refused = self.begin(call)
            if refused is not None:
                return self.whole(*refused)
            return self.watch(call)
        return self.whole(*self.answer(call))

    async def aclose(self) -> None:
        self.cut(error=StreamClosed("closed"))

    def whole(self, code: int, doc: Doc) -> Stream:
        async def chunks() -> AsyncIterator[bytes]:
            yield msgspec.json.encode(doc)

        return Stream(code, chunks())

    def begin(self, call: Call) -> tuple[int, Doc] | None:
        self.calls.append(call)
        for fault in self.faults:
            refused = fault(call)
            if isinstance(refused, Exception):
                raise refused
            if refused is not None:
                return refused["code"], refused
        if call.resource in self.missing:
            return 404, status(404, "NotFound", "the server could not find the requested resource")
        return None

    def answer(self, call: Call) -> tuple[int, Doc]:
        refused = self.begin(call)
        if refused is not None:
            return refused
        collection = self.objects.setdefault(call.resource, {})
        if call.verb == "list":
            return self.list(call, collection)
        if call.verb == "create":
            return self.create(call, collection)
        key = (call.namespace, call.name)
        old = collection.get(key)
        if old is None and call.verb != "apply":
            return 404, status(404, "NotFound", f'{call.resource} "{call.name}" not found', name=call.name)
        if call.verb == "get":
            return 200, old or {}
        if call.verb == "delete":
            return self.delete(call, collection, old or {})
        return self.write(call, old)

    def list(self, call: Call, collection: dict[tuple[str, str], Doc]) -> tuple[int, Doc]:
        wanted = call.query.get("resourceVersion", "")
        if wanted and int(wanted) > self.version:
            causes = [{"reason": "ResourceVersionTooLarge"}]
            return 504, status(504, "Timeout", f"Too large resource version: {wanted}", causes=causes)
        if call.query.get("resourceVersionMatch") == "Exact" and int(wanted) < self.oldest:
            return 410, status(410, "Expired", "too old")
        items = [doc for key, doc in sorted(collection.items()) if self.selects(call, doc)]
        metadata: Doc = {"resourceVersion": str(self.version)}
        limit = int(call.query.get("limit", "0")) if self.page_limit else 0
        start = int(call.query.get("continue", "0") or "0")
        if limit and start + limit < len(items):
            metadata["continue"] = str(start + limit)
        page = items[start : start + limit] if limit else items
        return 200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page}

    def selects(self, call: Call, doc: Doc) -> bool:
        metadata = doc["metadata"]
        if call.namespace and metadata.get("namespace", "") != call.namespace:
            return False
        for term in filter(None, call.query.get("fieldSelector", "").split(",")):
            name, unequal, value = term.partition("!=") if "!=" in term else term.partition("=")
            if name == "metadata.namespace" and (metadata.get("namespace") == value) == (unequal == "!="):
                return False
        for term in filter(None, call.query.get("labelSelector", "").split(",")):
            name, _, value = term.partition("=")
            if metadata.get("labels", {}).get(name) != value:
                return False
        return True

    def create(self, call: Call, collection: dict[tuple[str, str], Doc]) -> tuple[int, Doc]:
        doc: Doc = msgspec.json.decode(call.body)
        name = doc["metadata"].get("name") or doc["metadata"]["generateName"] + str(self.uid)
        if (call.namespace, name) in collection:
            return 409, status(409, "AlreadyExists", f'{call.resource} "{name}" already exists')
        doc["metadata"] |= {"name": name, "uid": self.next_uid(), "generation": 1}
        if call.namespace:
            doc["metadata"]["namespace"] = call.namespace
        return 201, self.store(call.resource, doc, "ADDED")

    def write(self, call: Call, old: Doc | None) -> tuple[int, Doc]:
        body = msgspec.json.decode(call.body)
        kind = call.headers.get("content-type", "")
        if old is None:
            body["metadata"] |= {"uid": self.next_uid(), "generation": 1}
            return 201, self.store(call.resource, body, "ADDED")
        if "json-patch" in kind:
            try:
                doc = apply_json_patch(old, body)
            except SchemaError as error:
                return 422, status(422, "Invalid", str(error))
        elif call.method == "PATCH":
            doc = apply_merge_patch(old, body)
        else:
            doc = body
        wanted = doc["metadata"].get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return 409, status(409, "Conflict", "the object has been modified")
        if call.subresource == "status":
            doc = {**old, "status": doc.get("status", {})}
        else:
            doc = {**doc, **({"status": old["status"]} if "status" in old else {})}
            if doc.get("spec") != old.get("spec"):
                doc["metadata"] = {**doc["metadata"], "generation": old["metadata"]["generation"] + 1}
        if doc == old:
            return 200, old
        return 200, self.store(call.resource, doc, "MODIFIED")

    def delete(self, call: Call, collection: dict[tuple[str, str], Doc], old: Doc) -> tuple[int, Doc]:
        if old["metadata"].get("finalizers"):
            metadata = {**old["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
            metadata["generation"] = metadata.get("generation", 1) + 1
            return 200, self.store(call.resource, {**old, "metadata": metadata}, "MODIFIED")
        self.remove(call.resource, call.name, call.namespace)
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def store(self, resource: str, doc: Doc, change: str) -> Doc:
        self.version += 1
        metadata = {**doc["metadata"], "resourceVersion": str(self.version)}
        doc = {**doc, "metadata": metadata}
        key = (metadata.get("namespace", ""), metadata["name"])
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects.setdefault(resource, {}).pop(key, None)
            self.publish("DELETED", resource, doc)
            return doc
        self.objects.setdefault(resource, {})[key] = doc
        self.publish(change, resource, doc)
        return doc

    def publish(self, change: str, resource: str, doc: Doc) -> None:
        self.history.append((self.version, change, resource, doc))

        def deliver() -> None:
            for watch in self.open(resource):
                if self.selects(watch.call, doc):
                    watch.send(change, doc)

        if self.watch_delay:
            asyncio.get_running_loop().call_later(self.watch_delay, deliver)
        else:
            deliver()

    def watch(self, call: Call) -> Stream:
        watch = OpenWatch(call)
        wanted = call.query.get("resourceVersion", "")
        if call.query.get("sendInitialEvents") == "true":
            if not self.streams_lists:
                return self.whole(422, status(422, "Invalid", "sendInitialEvents is forbidden for watch"))
            for _, doc in sorted(self.objects.get(call.resource, {}).items()):
                if self.selects(call, doc):
                    watch.send("ADDED", doc)
            watch.send("BOOKMARK", self.bookmark_doc(call.resource, **{"k8s.io/initial-events-end": "true"}))
        elif wanted and int(wanted) < self.oldest:
            watch.send("ERROR", status(410, "Expired", "too old resource version"))
            watch.end()
            return Stream(200, watch.chunks())
        else:
            for version, change, resource, doc in self.history:
                if resource == call.resource and version > int(wanted or "0") and self.selects(call, doc):
                    watch.send(change, doc)
        self.watches.append(watch)

        async def close() -> None:
            if watch in self.watches:
                self.watches.remove(watch)

        return Stream(200, watch.chunks(), close=close)


REFUSED = ConnectError("connection refused")
