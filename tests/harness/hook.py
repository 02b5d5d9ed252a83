"""The webhook endpoint of a run: HTTPS on 127.0.0.1 under a CA made for the run.

Each case gets a path prefix of its own, so that a late call of an earlier case can neither be
answered by nor be counted for a later one.
"""

from __future__ import annotations

import base64
import copy
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from quarterdeck.wire.certificate import issue, make_authority, to_pem

Json = dict[str, Any]

_LIFE: Final = timedelta(days=2)
_SCRIPT_KEYS: Final = frozenset({"response", "httpStatus", "delaySeconds", "rename", "touchLabels", "result"})


class HookSession:
    """The hooks of one case: their scripts and the calls received so far, in order."""

    def __init__(self, url: str, scripts: Mapping[str, Json]) -> None:
        self.url = url
        self.scripts = scripts
        self._lock = threading.Lock()
        self._calls: list[Json] = []

    @property
    def calls(self) -> list[Json]:
        with self._lock:
            return list(self._calls)

    def record(self, hook: str, request: Any) -> None:
        with self._lock:
            self._calls.append({"hook": hook, "request": request})

    def unknown_keys(self) -> list[str]:
        """Script keys that this endpoint does not understand, as `hook.key`."""
        return [
            f"{name}.{key}" for name, script in self.scripts.items() for key in script.keys() - _SCRIPT_KEYS
        ]


class HookServer:
    """Serves `https://127.0.0.1:<port>/<session>/<hook>`."""

    def __init__(self) -> None:
        authority, chain, key = _certificates()
        self.ca_bundle = base64.b64encode(authority).decode()
        self._sessions: dict[str, HookSession] = {}
        self._http = _Endpoint(("127.0.0.1", 0), _Handler)
        self._http.sessions = self._sessions
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # ssl reads key pairs from files only
            pair.write(chain + key)
            pair.flush()
            context.load_cert_chain(pair.name)
        self._http.tls = context
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="case-hooks", daemon=True
        )
        self._thread.start()

    def open(self, session: str, scripts: Mapping[str, Json]) -> HookSession:
        opened = HookSession(f"https://127.0.0.1:{self._http.server_address[1]}/{session}", scripts)
        self._sessions[session] = opened
        return opened

    def close_session(self, session: str) -> None:
        self._sessions.pop(session, None)

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Endpoint(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    sessions: Mapping[str, HookSession]
    tls: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake happens here, in the connection's own thread, so that nobody can block accept."""
        try:
            with self.tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except OSError:  # the caller gave up: its own failure policy decides what that means
            return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Endpoint
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, session_name, hook = (*self.path.partition("?")[0].split("/", 2), "", "")[:3]
        session = self.server.sessions.get(session_name)
        script = session.scripts.get(hook) if session is not None else None
        if session is None or script is None:
            self._answer(404, b"no such hook", "text/plain")
            return
        review = json.loads(body)
        request = review.get("request") or {}
        session.record(hook, request)
        if script.get("delaySeconds"):
            time.sleep(float(script["delaySeconds"]))
        if script.get("httpStatus"):
            self._answer(int(script["httpStatus"]), b"boom", "text/plain")
            return
        convert = review.get("kind") == "ConversionReview"
        response = conversion_response(script, request) if convert else admission_response(script, request)
        answer: Json = {"apiVersion": review.get("apiVersion"), "kind": review.get("kind")}
        if response is not None:
            answer["response"] = response
        self._answer(200, json.dumps(answer).encode(), "application/json")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def admission_response(script: Mapping[str, Any], request: Mapping[str, Any]) -> Json | None:
    """The scripted AdmissionReview response; a `patch` list is encoded as the API wants it."""
    scripted = script.get("response", {"allowed": True})
    if scripted is None:
        return None
    response: Json = {"uid": request.get("uid"), **scripted}
    if isinstance(response.get("patch"), list):
        response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        response.setdefault("patchType", "JSONPatch")
    return response


def conversion_response(script: Mapping[str, Any], request: Mapping[str, Any]) -> Json:
    """The scripted ConversionReview response: renamed spec fields, or only a result."""
    if "result" in script:
        return {"uid": request.get("uid"), "result": script["result"]}
    wanted = str(request.get("desiredAPIVersion"))
    converted = [_convert(script, item, wanted) for item in request.get("objects") or []]
    return {"uid": request.get("uid"), "result": {"status": "Success"}, "convertedObjects": converted}


def _convert(script: Mapping[str, Any], original: Json, wanted: str) -> Json:
    item = copy.deepcopy(original)
    change = f"{item['apiVersion'].rpartition('/')[2]}->{wanted.rpartition('/')[2]}"
    item["apiVersion"] = wanted
    spec = item.get("spec") or {}
    for old, new in ((script.get("rename") or {}).get(change) or {}).items():
        if old in spec:
            spec[new] = spec.pop(old)
    if script.get("touchLabels"):
        item.setdefault("metadata", {}).setdefault("labels", {})["converted"] = "yes"
    return item


def _certificates() -> tuple[bytes, bytes, bytes]:
    """A CA and a server certificate for 127.0.0.1: (CA PEM, server PEM, server key PEM)."""
    now = datetime.now(UTC)
    authority, authority_key = make_authority("quarterdeck case hooks", now=now, life=_LIFE)
    chain, key = issue(authority, authority_key, ["127.0.0.1", "localhost"], now=now, life=_LIFE)
    return to_pem([authority]), chain, key
