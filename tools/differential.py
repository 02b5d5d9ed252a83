"""The same requests to the real server and to ours; every difference in the answers is printed.

    python tools/differential.py [--real KUBECONFIG] [--ours KUBECONFIG] [--only GLOB] [PROBES.json ...]
    sh tools/kube/netns.sh python tools/differential.py --controllers
    sh tools/kube/netns.sh python tools/differential.py --node-authorizer

A probe file is a list of {"id", "given"?: {"fixtures": [...], "hooks": {...}}, "steps": [...]} with the
steps of the case files (method, path, query, body, ...) and no expectations: the real server is the
expectation. A step with `until` is repeated for so many seconds while it is refused, or while the text
in `seen` is not in the answer. A step with `differs` says why its answers differ on purpose, and is not
compared. With hooks, the calls they received are compared, too, unless `given.calls` is false. Answers are
compared after ids, times and revisions were replaced; revisions of objects by numbers in order of
appearance, so that writes without effect show. Fixtures are those of tests/cases/apiserver.json. Without
kubeconfigs both servers are started, fresh and alone; with ``--controllers`` they come with the controllers
every cluster has, and the probes are those of tools/probes/cluster. With ``--node-authorizer`` both know
kubelets by their names (Node authorizer and NodeRestriction), and the probes are those of tools/probes/node.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.harness.hook import HookServer
from tests.harness.http import body_of, headers_of, url_of
from tests.harness.variable import lookup, substitute
from tests.harness.wire import Answer, Connection, WireError, load_kubeconfig

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parity import server

ROOT = Path(__file__).resolve().parent.parent
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_REVISION = re.compile(r'(resourceVersion(?:\\"|"|): ?\\?")\d+')
#: addresses of services
_ADDRESS = re.compile(r"\b10\.0\.\d+\.\d+\b")
_LOOPBACK = re.compile(r"127\.0\.0\.1:\d+")
_COUNT = re.compile(r"\(\d+\)|current: \d+|[?&]timeout=\w+")
_AGE = re.compile(r"^\d+s$")
_DIGEST = re.compile(r"X509SHA256=[0-9a-f]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+")
#: lists whose order is nobody's business
_UNORDERED = frozenset({"managedFields", "causes", "nonResourceRules", "resourceRules"})
_PROBE_GROUP = re.compile(r"[a-z]+[0-9a-f]{8}\.example\.com")
_IGNORED = {"continue", "serverAddress", "storageVersionHash"}
#: headers whose values matter to clients
_HEADERS = ("Content-Type", "Warning", "Cache-Control", "Retry-After", "Allow", "Location", "Vary")
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Side:
    """One of the two servers."""

    def __init__(self, connection: Connection, fixtures: dict[str, Any], hooks: HookServer) -> None:
        self.connection = connection
        self._fixtures = fixtures
        self._hooks = hooks
        self._ready: set[str] = set()

    def ensure(self, name: str) -> None:
        if name in self._ready:
            return
        self._ready.add(name)
        crd = self._fixtures[name]
        body = json.dumps(crd).encode()
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.connection.request("POST", path, body=body, headers=_JSON)
        spec = crd["spec"]
        for version in spec["versions"]:
            if version["served"]:
                self._wait(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")

    def _wait(self, path: str) -> None:
        deadline = time.monotonic() + 15
        while self.connection.request("GET", path, headers=_JSON).status != 200:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{path} is not served")
            time.sleep(0.1)

    def run(self, probe: dict[str, Any]) -> list[Any]:
        for name in (probe.get("given") or {}).get("fixtures") or ():
            self.ensure(name)
        variables = {"u": secrets.token_hex(4)}
        variables["ns"] = f"probe-{variables['u']}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": variables["ns"]}}
        self.connection.request("POST", "/api/v1/namespaces", body=json.dumps(body).encode(), headers=_JSON)
        scripts = (probe.get("given") or {}).get("hooks") or {}
        session = self._hooks.open(variables["u"], substitute(scripts, variables))
        variables |= {"hookURL": session.url, "hookCA": self._hooks.ca_bundle}
        answers = self._run_steps(probe["steps"], variables)
        self._hooks.close_session(variables["u"])
        if scripts and (probe.get("given") or {}).get("calls", True):
            answers.append(_clean(session.calls, variables))
        self.connection.request("DELETE", f"/api/v1/namespaces/{variables['ns']}", headers=_JSON)
        return answers

    def _run_steps(self, steps: list[dict[str, Any]], variables: dict[str, str]) -> list[Any]:
        answers: list[Any] = []
        revisions: dict[str, str] = {}
        for raw in steps:
            if raw.get("wait"):
                time.sleep(raw["wait"])
            try:
                answer = self._answer(raw, variables)
            except WireError as error:
                answers.append(f"no answer: {type(error).__name__}")
                continue
            for name, path in (raw.get("save") or {}).items():
                try:
                    variables[name] = str(lookup(answer.json(), path))
                except (KeyError, ValueError, TypeError):
                    variables[name] = "unset"
            shown = normal(answer, variables, revisions)
            answers.append(raw.get("differs", shown))
        return answers

    def _answer(self, raw: dict[str, Any], variables: dict[str, str]) -> Answer:
        step = substitute(raw, variables)
        deadline = time.monotonic() + float(step.get("until") or 0)
        while True:
            answer = self.connection.request(
                step["method"], url_of(step), body=body_of(step), headers=headers_of(step)
            )
            is_there = step["seen"] in answer.text() if "seen" in step else answer.status < 400
            if is_there or time.monotonic() >= deadline:
                return answer
            time.sleep(0.1)


def normal(answer: Answer, variables: dict[str, str], revisions: dict[str, str]) -> Any:
    """An answer with everything replaced that differs from run to run."""
    headers = {name: sorted(answer.header(name)) for name in _HEADERS if answer.header(name)}
    try:
        body: Any = answer.json()
    except ValueError:
        lines = answer.body.splitlines()
        try:
            body = [json.loads(line) for line in lines if line.strip()]
        except ValueError:
            body = answer.text()
    _number_revisions(body, revisions)
    if isinstance(body, dict) and " is invalid: [" in str(body.get("message")):
        # sibling fields report in no fixed order
        head, _, errors = body["message"].partition(" is invalid: [")
        body["message"] = f"{head} is invalid: {sorted(errors.removesuffix(']').split(', '))}"
    if isinstance(body, dict) and "generateName" in str(body.get("message")):
        generated = (body.get("details") or {}).get("name")
        body = json.loads(json.dumps(body).replace(generated or "<>", "<generated>"))
    return {"status": answer.status, "headers": _clean(headers, variables), "body": _clean(body, variables)}


def _number_revisions(body: Any, revisions: dict[str, str]) -> None:
    """Replaces the resourceVersion of every object by its place in the order of appearance."""
    if isinstance(body, list):
        for item in body:
            _number_revisions(item, revisions)
    elif isinstance(body, dict):
        for key in ("items", "object"):
            if isinstance(body.get(key), list | dict):
                _number_revisions(body[key], revisions)
        meta = body.get("metadata")
        if isinstance(meta, dict) and meta.get("uid") and meta.get("resourceVersion"):
            number = revisions.setdefault(meta["resourceVersion"], f"#{len(revisions) + 1}")
            meta["resourceVersion"] = number


def _clean(value: Any, variables: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        base = value.get("generateName")
        if isinstance(base, str) and base and str(value.get("name")).startswith(base):
            value = {**value, "name": f"{base}<generated>"}
        return {
            _text(name, variables): _clean(item, variables, name)
            for name, item in sorted(value.items())
            if name not in _IGNORED and not (name == "description" and key == "columnDefinitions")
        }
    if isinstance(value, list):
        value = [item for item in value if not _is_of_another_probe(item)]
        items = [_clean(item, variables, key if key == "columnDefinitions" else "") for item in value]
        if key in _UNORDERED:
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return items
    if not isinstance(value, str):
        return value
    if key in ("resourceVersion", "uid") and value[:1] not in ("", "#"):
        return f"<{key}>"
    return _text(_sort_quoted(value), variables)


def _is_of_another_probe(item: Any) -> bool:
    """Whether a listed group was made by an earlier probe and not yet taken down."""
    if not isinstance(item, dict):
        return False
    meta = item.get("metadata")
    name = item.get("name") or (meta.get("name") if isinstance(meta, dict) else "")
    return _PROBE_GROUP.fullmatch(str(name)) is not None


def _sort_quoted(text: str) -> str:
    """Documents quoted inside a text with their keys sorted: Go's order is not part of the comparison."""
    if '"{' not in text:
        return text
    parts, end = [], 0
    while (start := text.find('"{', end)) >= 0:
        try:
            quoted, stop = json.JSONDecoder().raw_decode(text, start)
            inner = json.dumps(json.loads(quoted), sort_keys=True, separators=(",", ":"))
        except ValueError:
            parts.append(text[end : start + 1])
            end = start + 1
        else:
            parts.append(text[end:start] + json.dumps(inner))
            end = stop
    return "".join(parts) + text[end:]


def _text(text: str, variables: dict[str, str]) -> str:
    for name in ("ns", "u", "hookCA"):
        text = text.replace(variables[name], f"<{name}>")
    return _without_volatile(text)


@functools.lru_cache(100_000)
def _without_volatile(text: str) -> str:
    text = _LOOPBACK.sub("<address>", text)
    text = _UUID.sub("<uuid>", text)
    text = _TIME.sub("<time>", text)
    text = _DIGEST.sub("<digest>", text)
    text = _REVISION.sub(r"\1<n>", text)
    text = _ADDRESS.sub("<ip>", text)
    text = _AGE.sub("<age>", text)
    return _COUNT.sub("<n>", text)


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    if _code(real) != _code(ours):  # an answer of another code: its parts say nothing more
        yield f"{path}:\n      real {_gist(real)}\n      ours {_gist(ours)}"
        return
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            where = f"{path}.{key}"
            if key not in ours:
                yield f"{where}: missing, real has {_short(real[key])}"
            elif key not in real:
                yield f"{where}: {_short(ours[key])}, real has none"
            else:
                yield from differences(real[key], ours[key], where)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif isinstance(real, list) and isinstance(ours, list) and any(isinstance(x, dict) for x in real + ours):
        yield f"{path}: {len(real)} items, ours {len(ours)}"
        yield from (f"{path}: only real {_short(item)}" for item in real if item not in ours)
        yield from (f"{path}: only ours {_short(item)}" for item in ours if item not in real)
    elif isinstance(real, str) and isinstance(ours, str) and real != ours:
        start = _first_difference(real, ours)
        yield f"{path}:\n      real {_short(real[start:])}\n      ours {_short(ours[start:])}"
    elif real != ours:
        yield f"{path}:\n      real {_short(real)}\n      ours {_short(ours)}"


def _first_difference(left: str, right: str) -> int:
    """Where to start showing two long texts: a little before they part."""
    same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    return max(0, same - 120)


def _code(value: Any) -> int:
    """The HTTP code if the value is an answer."""
    code = value.get("status") if isinstance(value, dict) else 0
    return code if isinstance(code, int) else 0


def _gist(answer: Any) -> str:
    if not _code(answer):
        return _short(answer)
    body = answer["body"]
    return f"{answer['status']} {_short(body.get('message') or body if isinstance(body, dict) else body)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 700 else text[:700] + "..."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--ours", type=Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--controllers", action="store_true")
    parser.add_argument("--node-authorizer", action="store_true")
    options = parser.parse_args()
    fixtures = json.loads((ROOT / "tests" / "cases" / "apiserver.json").read_text())["fixtures"]
    controllers = options.controllers
    folder = "cluster" if controllers else "node" if options.node_authorizer else ""
    files = options.files or sorted((ROOT / "tools" / "probes" / folder).glob("*.json"))
    plugin = ["--enable-admission-plugins=NodeRestriction"] if options.node_authorizer else []
    mode = ["--authorization-mode=Node"] if options.node_authorizer else []
    with ExitStack() as stack:
        real_config = options.real or stack.enter_context(
            server.real([*plugin, *mode], controllers=controllers)
        )
        ours_config = (
            options.ours or stack.enter_context(server.embedded(plugin, controllers=controllers)).kubeconfig
        )
        hooks = HookServer()
        stack.callback(hooks.close)
        real = Side(load_kubeconfig(real_config).connect(), fixtures, hooks)
        ours = Side(load_kubeconfig(ours_config).connect(), fixtures, hooks)
        return compare(files, options.only, real, ours)


def compare(files: list[Path], only: str, real: Side, ours: Side) -> int:
    equal = different = 0
    for file in files:
        for probe in json.loads(file.read_text()):
            if not fnmatch.fnmatch(probe["id"], only):
                continue
            found = list(differences(real.run(probe), ours.run(probe)))
            if found:
                different += 1
                print(f"DIFF {probe['id']}")
                for line in found:
                    print(f"   {line}")
            else:
                equal += 1
    print(f"{equal} equal, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
