"""The real etcd and kube-apiserver, throw-away, on 127.0.0.1.

This is the judge the embedded server is compared with: the programs come from the cache that
``tools/kube/build.sh`` fills, all files live in a temporary directory, and everything ends with the
context manager (or, for the command line, on SIGTERM or Ctrl-C). It is not for keeping data.

    with RealServer() as server:
        subprocess.run([server.program("kubectl"), "--kubeconfig", server.kubeconfig, "get", "ns"])

    python tools/kube/server.py --kubeconfig FILE [--controllers] [--no-fsync]

The command prints one line when the server is ready. The kubeconfig holds a client certificate of group
``system:masters``.

Nothing here listens on or dials an address other than 127.0.0.1. kube-controller-manager and webhooks
with a service reference are different: they may dial cluster addresses (10.0.0.0/16) that the machine's
network would route elsewhere. Run such a control plane where only loopback exists:

    tools/kube/netns.sh python tools/kube/server.py --kubeconfig FILE --controllers
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import datetime
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

GO_MOD: Final = Path(__file__).parent / "go.mod"
VERSION: Final = dict(re.findall(r"^\t(\S+) (v\S+)$", GO_MOD.read_text(), re.MULTILINE))["k8s.io/kubernetes"]
"""The release of Kubernetes: go.mod is the one place that says it."""
READY_TIMEOUT: Final = 90.0
# After this long a stopping program is killed: its data is thrown away, so nothing is lost.
STOP_TIMEOUT: Final = 5.0
PR_SET_PDEATHSIG: Final = 1


def cache_dir() -> Path:
    """Where build.sh puts its results; the directory need not exist."""
    base = os.environ.get("QUARTERDECK_CACHE") or Path.home() / ".cache" / "quarterdeck"
    return Path(base) / "kube" / VERSION


def is_built() -> bool:
    """Whether the real programs are there, so that callers can skip instead of fail."""
    return (cache_dir() / "kube-apiserver").exists()


class RealServer:
    """etcd and kube-apiserver, started by ``start`` and ended by ``stop``, or as a context manager.

    kubeconfig: where to write the admin kubeconfig; by default a file in the temporary directory.
    controllers: also run kube-controller-manager (see the module text about addresses).
    fsync: False starts etcd with ``--unsafe-no-fsync``, for comparisons without durability.
    apiserver_args: further flags for kube-apiserver, for example feature gates.
    controller_args: further flags for kube-controller-manager.
    """

    def __init__(
        self,
        *,
        kubeconfig: Path | None = None,
        controllers: bool = False,
        fsync: bool = True,
        apiserver_args: tuple[str, ...] = (),
        controller_args: tuple[str, ...] = (),
    ) -> None:
        self._controllers = controllers
        self._fsync = fsync
        self._apiserver_args = apiserver_args
        self._controller_args = controller_args
        self._kubeconfig = kubeconfig
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        self._logs: list[IO[bytes]] = []
        self._opener = urllib.request.build_opener()
        self.directory = Path()
        self.kubeconfig = Path()
        self.url = ""
        self.etcd_url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @staticmethod
    def program(name: str) -> Path:
        """The path of a built program: kubectl, etcd, kube-apiserver, clientgo, ..."""
        path = cache_dir() / name
        if not path.exists():
            raise FileNotFoundError(f"{name} is not built: run `make kube` first (needs Go)")
        return path

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by program name, for measuring CPU time and memory."""
        return {name: process.pid for name, process in self._processes.items()}

    def get(self, path: str, accept: str = "application/json") -> Any:
        """The JSON document at a path, read as the admin."""
        return json.loads(self._read(path, accept))

    def start(self) -> None:
        """Start everything and return when /readyz answers; stops everything again on failure."""
        self.program("kube-apiserver")
        self.directory = Path(tempfile.mkdtemp(prefix="kube-"))
        self.kubeconfig = self._kubeconfig or self.directory / "kubeconfig"
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the processes, newest first, and remove their files and the kubeconfig."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        for log in self._logs:
            log.close()
        self._logs.clear()
        self.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, how: signal.Signals) -> None:
        """End kube-apiserver by a signal and start it again on the same etcd; returns when it is ready."""
        process = self._processes.pop("kube-apiserver")
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._spawn("kube-apiserver", *self._commands["kube-apiserver"])
        self._wait_ready()

    def compact(self) -> None:
        """Make etcd forget all history up to now. kube-apiserver keeps what its caches have."""
        revision = int(self._etcd("range", key=_base64("any"))["header"]["revision"])
        # where a kube-apiserver looks for what was compacted
        self._etcd("put", key=_base64("compact_rev_key"), value=_base64(str(revision)))
        self._etcd("compaction", revision=revision, physical=True)

    def _etcd(self, what: str, **body: object) -> Any:
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/{what}", json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)

    def wait(self) -> str:
        """Block until one of the programs ends by itself; returns its name."""
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    return name
            time.sleep(0.5)

    def _start(self) -> None:
        client_port, peer_port, port = _free_ports(3)
        pki = _Pki(self.directory)
        self.url = f"https://127.0.0.1:{port}"
        etcd_url = self.etcd_url = f"http://127.0.0.1:{client_port}"
        peer_url = f"http://127.0.0.1:{peer_port}"
        self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--log-level=warn",
            *([] if self._fsync else ["--unsafe-no-fsync"]),
        )
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.file('server.crt')}",
            f"--tls-private-key-file={pki.file('server.key')}",
            f"--client-ca-file={pki.file('ca.crt')}",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            # Pods must be creatable without a controller that makes service accounts.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki.file('service-account.pub')}",
            f"--service-account-signing-key-file={pki.file('service-account.key')}",
            *self._apiserver_args,
        )
        document = _kubeconfig(self.url, pki)
        private = self.directory / "admin.kubeconfig"
        _write_secret(private, document)
        self._opener = _opener(pki)
        self._wait_ready()
        if self._controllers:
            self._spawn(
                "kube-controller-manager",
                f"--kubeconfig={private}",
                "--bind-address=127.0.0.1",
                f"--secure-port={_free_ports(1)[0]}",
                "--leader-elect=false",
                "--use-service-account-credentials=true",
                f"--root-ca-file={pki.file('ca.crt')}",
                f"--cluster-signing-cert-file={pki.file('ca.crt')}",
                f"--cluster-signing-key-file={pki.file('ca.key')}",
                f"--service-account-private-key-file={pki.file('service-account.key')}",
                *self._controller_args,
            )
        # The file's existence tells others that the server is ready, so it appears last and whole.
        _write_secret(self.kubeconfig, document)

    def _spawn(self, name: str, *args: str) -> None:
        # Kept open until the process ends, and readable afterwards for the error text.
        log = open(self.directory / f"{name}.log", "wb")  # noqa: SIM115
        self._logs.append(log)
        self._commands[name] = args
        self._processes[name] = subprocess.Popen(
            [self.program(name), *args],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
            # Ctrl-C in a terminal reaches the whole group; the order of stopping is ours to decide.
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            with contextlib.suppress(OSError):
                if self._read("/readyz", "*/*") == b"ok":
                    return
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with code {process.returncode}: {self._tail(name)}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"kube-apiserver is not ready: {self._tail('kube-apiserver')}")
            time.sleep(0.05)

    def _read(self, path: str, accept: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with self._opener.open(request, timeout=30) as answer:
            content: bytes = answer.read()
            return content

    def _tail(self, name: str) -> str:
        text = (self.directory / f"{name}.log").read_text(errors="replace")
        return text[-2000:]


class _Pki:
    """A certificate authority, one server and one admin certificate, and the service-account key."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-real-ca")])
        builder = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._save("ca.crt", builder.sign(self._key, hashes.SHA256()))
        self._save("ca.key", self._key)
        self._issue("server", "kube-apiserver", None, ExtendedKeyUsageOID.SERVER_AUTH)
        self._issue("admin", "admin", "system:masters", ExtendedKeyUsageOID.CLIENT_AUTH)
        account = ec.generate_private_key(ec.SECP256R1())
        self._save("service-account.key", account)
        public = account.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write_secret(self.file("service-account.pub"), public.decode())

    def file(self, name: str) -> Path:
        return self._directory / name

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=30))
        )

    def _issue(self, name: str, common: str, group: str | None, usage: x509.ObjectIdentifier) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
        if group is not None:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        certificate = (
            self._builder(x509.Name(attributes), key.public_key())
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        self._save(f"{name}.crt", certificate)
        self._save(f"{name}.key", key)

    def _save(self, name: str, value: x509.Certificate | ec.EllipticCurvePrivateKey) -> None:
        if isinstance(value, x509.Certificate):
            data = value.public_bytes(serialization.Encoding.PEM)
        else:
            data = value.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        _write_secret(self.file(name), data.decode())


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _opener(pki: _Pki) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=str(pki.file("ca.crt")))
    context.load_cert_chain(pki.file("admin.crt"), pki.file("admin.key"))
    # An empty table of proxies: the server is always local.
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )


def _kubeconfig(url: str, pki: _Pki) -> str:
    def data(name: str) -> str:
        return base64.b64encode(pki.file(name).read_bytes()).decode()

    # JSON is YAML, so every client reads it, and no YAML library is needed here.
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "kube-real", "cluster": {"server": url, "certificate-authority-data": data("ca.crt")}}
        ],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": data("admin.crt"),
                    "client-key-data": data("admin.key"),
                },
            }
        ],
        "contexts": [{"name": "kube-real", "context": {"cluster": "kube-real", "user": "admin"}}],
        "current-context": "kube-real",
    }
    return json.dumps(document, indent=2) + "\n"


def _write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read, so that it appears with all its content or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    """In the child, before exec: even if the parent is killed, nothing keeps running."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description="run the real etcd and kube-apiserver on 127.0.0.1")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="written when the server is ready")
    parser.add_argument("--controllers", action="store_true", help="also run kube-controller-manager")
    parser.add_argument("--fsync", action=argparse.BooleanOptionalAction, default=True, help="etcd fsync")
    options = parser.parse_args()
    if not is_built():
        print("the real programs are not built: run `make kube` first (needs Go)", file=sys.stderr)
        return 1

    def interrupt(signum: int, frame: object) -> None:
        # Once is enough: a second signal must not break off the stopping.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    server = RealServer(
        kubeconfig=options.kubeconfig.absolute(), controllers=options.controllers, fsync=options.fsync
    )
    try:
        with server:
            print(
                f"kube-apiserver {VERSION} ready on {server.url}, kubeconfig {options.kubeconfig}", flush=True
            )
            ended = server.wait()
            print(f"{ended} ended by itself", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
