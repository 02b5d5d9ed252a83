"""Tells a history to a server and writes down what was observed, step by step."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import re
import time
from datetime import datetime
from typing import Any, Final

import yaml
from tests.harness.hook import HookServer, HookSession
from tests.harness.wire import Answer

from differential import normal
from quarterdeck.wire.patch import apply_merge_patch

from .definition import conversion_scripts
from .hook import FORMS as HOOK_FORMS
from .hook import scripts
from .side import Side
from .stream import Stream

Json = dict[str, Any]
Observed = dict[int, Any]
_REFERENCE: Final = re.compile(r"\$\{(\d+)\.(rv|uid|continue)\}")
_WHERE: Final = {"rv": "resourceVersion", "uid": "uid", "continue": "continue"}
_HEADERS: Final = ("Content-Type", "Warning")
_OLD: Final = re.compile(rb"(resource version: )\d+")
#: a stream's events are waited for by writing an object; if that is refused, this long
_QUIET: Final = 0.3
#: before it is said that a server does not get there: on a busy machine time passes without a chance
_FEWEST_ATTEMPTS: Final = 25
_STAMP: Final = re.compile(rb'("(?:creationTimestamp|time)": ?")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)')
_CLUSTER_WIDE: Final = ("/apis/apiextensions.k8s.io/", "/apis/admissionregistration.k8s.io/")
_PROBES: Final = ("probe", "hook-probe")
_INITIAL_END: Final = "k8s.io/initial-events-end"


class Unknown(Exception):
    """A step refers to what an earlier one was not given."""


async def tell(side: Side, steps: list[Json], name: str, hooks: HookServer) -> Observed:
    """What the server answered to each step, by its number; None where a reference said nothing.

    The name is replaced in what is observed: one with a dash is not found in a certificate by chance.
    """
    session = hooks.open(name, {**scripts(), **conversion_scripts()})
    told = _Told(side, name, {"$hook": session.url, "$ca": hooks.ca_bundle, "$u": name}, session)
    try:
        return {step["i"]: await told.step(step) for step in steps}
    finally:
        told.close()
        await told.clean_up()
        hooks.close_session(name)


class _Told:
    def __init__(self, side: Side, name: str, texts: dict[str, str], session: HookSession) -> None:
        self._side = side
        self._session = session
        self._name = name
        self._texts = texts
        self._answers: dict[int, Json] = {}
        self._streams: dict[int, Stream] = {}
        self._revisions: dict[str, str] = {}
        self._variables = {"u": name, "ns": f"{name}-a", "hookCA": texts["$ca"]}
        #: where a `clock` step divided the time
        self._seconds: list[int] = []
        #: streams of which something was read
        self._begun: set[int] = set()
        #: what was made outside of namespaces and is in the way of others
        self._made: set[str] = set()

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()

    async def step(self, step: Json) -> Any:
        try:
            match step["op"]:
                case "request":
                    return self._note(step, await self._send(step))
                case "settle":
                    return self._note(step, await self._settle(step))
                case "watch":
                    return await self._watch(step)
                case "read":
                    return await self._read(step)
                case "ended":
                    return await self._ended(step)
                case "restart":
                    await self._side.restart(step["how"])
                    return "restarted"
                case "compact":
                    await self._side.compact()
                    return "compacted"
                case "clock":
                    await self._let_pass()
                    return "passed"
                case "calls":
                    return self._calls()
        except Unknown:
            return None
        raise ValueError(f"no such operation: {step['op']}")

    def _note(self, step: Json, answer: Answer) -> Any:
        answer = _as_json(answer)
        if answer.status < 300:
            self._answers[step["i"]] = answer.json()
            if step.get("method") == "POST" and step["path"].startswith(_CLUSTER_WIDE):
                self._made.add(f"{step['path']}/{self._filled(step['body']['metadata']['name'])}")
        return self._shown(_without(answer, step.get("drop", ())))

    def _shown(self, answer: Answer, *, is_stream: bool = False) -> Json:
        # a stream that one of the servers has forgotten must not change how later revisions are counted
        revisions = dict(self._revisions) if is_stream else self._revisions
        # revisions inside messages are different numbers on every server
        body = _OLD.sub(rb"\1<n>", answer.body)
        if self._seconds:
            body = _STAMP.sub(self._stamped, body)
        answer = Answer(answer.status, answer.headers, body)
        shown: Json = normal(answer, self._variables, revisions)
        shown["headers"] = {key: value for key, value in shown["headers"].items() if key in _HEADERS}
        return shown

    async def _send(self, step: Json) -> Answer:
        body = self._filled(step["body"]) if "body" in step else None
        if isinstance(body, dict) and "$from" in body:
            body = self._changed(body)
        raw = None if body is None else json.dumps(body).encode()
        return await self._side.request(step["method"], self._target(step), self._headers(step), raw)

    def _headers(self, step: Json) -> dict[str, str]:
        headers = {"Accept": step.get("accept") or "application/json", "User-Agent": "history"}
        if "body" in step:
            headers["Content-Type"] = step.get("type") or "application/json"
        if "as" in step:
            headers["Impersonate-User"] = self._filled(step["as"])
        return headers

    def _stamped(self, match: re.Match[bytes]) -> bytes:
        """A time by the number of `clock` steps before it."""
        moment = datetime.fromisoformat(match[2].decode()).timestamp()
        passed = sum(second <= moment for second in self._seconds)
        return match[0] if not passed else match[1] + f"<time+{passed}>".encode()

    async def _let_pass(self) -> None:
        second = int(time.time()) + 1
        await asyncio.sleep(second + 0.01 - time.time())
        self._seconds.append(second)

    def _calls(self) -> Any:
        """What admission webhooks were sent. That of who is told everything is known; how often, too."""
        found: list[Json] = []
        for call in self._session.calls:
            request = call["request"]
            if call["hook"].partition("-")[0] not in HOOK_FORMS or request.get("name") in _PROBES:
                continue
            if not request["userInfo"]["username"].startswith(self._name):
                request = {key: value for key, value in request.items() if key != "userInfo"}
            objects = {key: _without_owners(request.get(key)) for key in ("object", "oldObject")}
            shown = {"hook": call["hook"], "request": {**request, **objects, "uid": ""}}
            if shown not in found[-1:]:  # else it began again, with an object that it had newer
                found.append(shown)
        return self._shown(Answer(200, [], json.dumps(found).encode()), is_stream=True)["body"]

    def _target(self, step: Json) -> str:
        query = self._filled(step.get("query", ""))
        return str(self._filled(step["path"])) + (f"?{query}" if query else "")

    def _changed(self, body: Json) -> Any:
        base = self._answers.get(body["$from"])
        if base is None:
            raise Unknown
        return apply_merge_patch(copy.deepcopy(base), body["$merge"])

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._filled(key): self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, str) and "$" in value and value not in ("$from", "$merge"):
            value = _REFERENCE.sub(self._referred, value)
            for placeholder, text in self._texts.items():
                value = value.replace(placeholder, text)
        return value

    def _referred(self, match: re.Match[str]) -> str:
        answer = self._answers.get(int(match[1])) or {}
        value = (answer.get("metadata") or {}).get(_WHERE[match[2]])
        if not value:
            raise Unknown
        return str(value)

    async def _settle(self, step: Json) -> Answer:
        deadline = time.monotonic() + self._side.patience
        for attempt in itertools.count(1):
            answer = await self._send(step)
            said = answer.text() + str(answer.header("Warning"))
            is_there = answer.status == step["code"] and step.get("seen", "") in said
            is_there = is_there and not ("unseen" in step and step["unseen"] in said)
            if is_there or (attempt > _FEWEST_ATTEMPTS and time.monotonic() > deadline):
                return answer
            await asyncio.sleep(0.02)
        raise AssertionError("unreachable: attempts are counted for ever")

    async def _watch(self, step: Json) -> Any:
        stream = await self._side.watch(self._target(step), self._headers(step))
        if not step.get("unread"):
            stream.begin()
        self._streams[step["i"]] = stream
        return self._shown(_as_json(stream.answer))

    async def _read(self, step: Json) -> Any:
        stream = self._streams.get(step["watch"])
        if stream is None:
            raise Unknown
        answer = await self._send({**step, "method": "POST"})
        shown: Json = self._note(step, answer)
        wait = self._side.patience if answer.status < 300 else min(self._side.patience, _QUIET)
        events = await stream.take_up_to(self._filled(step["body"]["metadata"]["name"]), wait)
        if step.get("closes"):
            stream.close()
        return {"written": shown["status"], "events": self._events(step["watch"], events)}

    async def _ended(self, step: Json) -> Any:
        stream = self._streams.get(step["watch"])
        if stream is None:
            raise Unknown
        events = await stream.take_to_end(self._side.patience)
        return {"ended": stream.has_ended, "events": self._events(step["watch"], events)}

    def _events(self, watch: int, events: list[Json]) -> list[Any]:
        kept = [_shortened(event) for event in events if not _is_heartbeat(event)]
        # the real server shares the bytes of an event between streams, and so whether it has columns
        for event in kept[1:]:
            event["object"].pop("columnDefinitions", None)
        if watch in self._begun and kept and "columnDefinitions" in kept[0]["object"]:
            kept[0]["object"]["columnDefinitions"] = None
        if kept:
            self._begun.add(watch)
        raw = json.dumps(kept).encode()
        shown = self._shown(Answer(200, [], raw), is_stream=True)["body"]
        # which of the first ones comes first is not said
        count = next((n for n, event in enumerate(kept) if event["type"] != "ADDED"), len(kept))
        if count < len(kept) and kept[count]["type"] == "BOOKMARK":
            shown[:count] = sorted(shown[:count], key=lambda event: json.dumps(event, sort_keys=True))
        return list(shown)

    async def clean_up(self) -> None:
        """What would be in the way of later histories on the same server; nobody compares it."""
        group = f"{self._name}.example.com"
        free = json.dumps({"metadata": {"finalizers": None}}).encode()
        merge = {"Content-Type": "application/merge-patch+json"}
        # webhooks first: they may refuse the rest
        for path in sorted(self._made, key=lambda path: "webhook" not in path):
            if "customresource" in path:
                whole = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
                await self._side.request("PATCH", path, merge, json.dumps(whole).encode())
                for place in itertools.product(("v1", "v2", "v3"), "ab", ("one", "two")):
                    version, space, name = place
                    item = f"/apis/{group}/{version}/namespaces/{self._name}-{space}/widgets/{name}"
                    await self._side.request("PATCH", item, merge, free)
            await self._side.request("DELETE", path, {}, None)


def _as_json(answer: Answer) -> Answer:
    """An answer in YAML as if it were JSON, but for the header that says so."""
    if not any("yaml" in value for value in answer.header("Content-Type")):
        return answer
    body = json.dumps(yaml.load(answer.body, _Loader)).encode()
    return Answer(answer.status, answer.headers, body)


class _Loader(yaml.CSafeLoader):
    """Times stay texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _without_owners(obj: Json | None) -> Json | None:
    """The real server forgets who owns what in an object that does not fit its schema; so it is not asked."""
    if obj is None:
        return None
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def _is_heartbeat(event: Json) -> bool:
    """A bookmark of no particular moment."""
    meta = (event.get("object") or {}).get("metadata") or {}
    return event["type"] == "BOOKMARK" and _INITIAL_END not in (meta.get("annotations") or {})


def _shortened(event: Json) -> Json:
    """A bookmark is about its metadata; the real server adds the empty fields of the kind's Go type."""
    if event["type"] != "BOOKMARK":
        return event
    kept = ("apiVersion", "kind", "metadata")
    return {"type": "BOOKMARK", "object": {key: event["object"].get(key) for key in kept}}


def _without(answer: Answer, paths: list[str]) -> Answer:
    """Before revisions are numbered: one that is left out has no number."""
    if not paths:
        return answer
    body = answer.json()
    for *parents, last in (path.split(".") for path in paths):
        inner = body
        for key in parents:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(last, None)
    return Answer(answer.status, answer.headers, json.dumps(body).encode())
