"""The webhook endpoint of a run: HTTPS on 127.0.0.1 under a CA made for the run.

Each case gets a path prefix of its own, so that a late call of an earlier case can neither be
answered by nor be counted for a later one.
"""

from __future__ import annotations

import base64
import copy
import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Json = dict[str, Any]

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
    now = datetime.datetime.now(datetime.UTC)
    lifetime = (now - datetime.timedelta(hours=1), now + datetime.timedelta(days=2))
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quarterdeck case hooks")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    leaf = (
        _builder(name, ca_name, key.public_key(), lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ca.public_bytes(pem), leaf.public_bytes(pem), private


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    lifetime: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(lifetime[0])
        .not_valid_after(lifetime[1])
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
