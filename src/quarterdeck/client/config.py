"""Settings of a client: where the server is, who we are, how hard we may push.

``Config.load()`` finds them the way controller-runtime does. The first that applies:

1. the path given (``--kubeconfig``),
2. the files named by ``KUBECONFIG`` (in-cluster is then not tried),
3. the service account of the pod we run in,
4. ``$HOME/.kube/config``.

A ``Config`` is a value: copy it with ``evolve`` and hand it on. ``transport()`` makes the HTTP
transport it describes.
"""

import base64
import os
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec

from quarterdeck import __version__
from quarterdeck.client.credential import (
    Anonymous,
    BasicAuth,
    Credential,
    ExecPlugin,
    FileToken,
    StaticToken,
)
from quarterdeck.client.http import HttpTransport
from quarterdeck.client.kubeconfig import Context, decode_data, load_kubeconfig
from quarterdeck.client.tls import TlsOptions
from quarterdeck.client.transport import Headers
from quarterdeck.errors import ConfigError

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class Impersonation(msgspec.Struct, frozen=True):
    """Act as somebody else; the server checks that we may."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    """Pairs of key and value; a key may repeat."""

    def headers(self) -> Headers:
        """The ``Impersonate-*`` headers."""
        if not self.user:
            if self.uid or self.groups or self.extra:
                raise ConfigError("impersonation of groups, uid or extra needs a user")
            return ()
        out = [("impersonate-user", self.user)]
        if self.uid:
            out.append(("impersonate-uid", self.uid))
        out += [("impersonate-group", group) for group in self.groups]
        out += [(f"impersonate-extra-{_escape(key)}", value) for key, value in self.extra]
        return tuple(out)


class ExecOptions(msgspec.Struct, frozen=True):
    """A credential plugin as the kubeconfig describes it."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to talk to one server."""

    server: str
    """URL of the server, ``https://host:port``; a path prefix is kept."""
    tls: TlsOptions = TlsOptions()
    namespace: str = "default"
    """Namespace of the context; a default for callers, never applied silently."""
    token: str = ""
    token_file: str = ""
    """File with a bearer token; re-read when it changes. Wins over ``token``."""
    username: str = ""
    password: str = ""
    exec: ExecOptions | None = None
    """Credential plugin."""
    impersonate: Impersonation = Impersonation()
    proxy: str = ""
    """``http://`` URL of a proxy; taken from the environment by ``load`` when the file names none."""
    user_agent: str = ""
    """``User-Agent`` header; empty means program, version and platform."""
    timeout: float | None = 60.0
    """Seconds for one whole exchange; ``None`` waits for ever. Streams are bounded only until they open."""
    max_in_flight: int = 64
    """Requests under way at once on the default lane; 0 means any number."""
    qps: float = 0.0
    """Requests per second; 0 (the default) leaves fairness to the server."""
    burst: int = 10
    """Requests that may exceed ``qps`` at once."""

    @classmethod
    def load(
        cls,
        kubeconfig: str | os.PathLike[str] = "",
        *,
        context: str = "",
        env: Mapping[str, str] | None = None,
        service_account: str = SERVICE_ACCOUNT,
    ) -> Self:
        """Find the settings by the precedence above; raises ``ConfigError`` naming what was tried."""
        environment = os.environ if env is None else env
        if kubeconfig:
            return cls._from_context(load_kubeconfig([Path(kubeconfig)], context), environment)
        if environment.get("KUBECONFIG"):
            paths = [Path(part) for part in environment["KUBECONFIG"].split(os.pathsep) if part]
            return cls._from_context(load_kubeconfig(paths, context), environment)
        home = environment.get("HOME")
        file = (Path(home) if home else Path.home()) / ".kube" / "config"
        if environment.get("KUBERNETES_SERVICE_HOST") and not context:
            try:
                return cls.in_cluster(env=environment, service_account=service_account)
            except ConfigError:
                if not file.exists():
                    raise  # a pod without a service account may still have a file of its own
        return cls._from_context(load_kubeconfig([file], context), environment)

    @classmethod
    def in_cluster(
        cls, *, env: Mapping[str, str] | None = None, service_account: str = SERVICE_ACCOUNT
    ) -> Self:
        """The service account of this pod."""
        environment = os.environ if env is None else env
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ConfigError(
                "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
            )
        folder = Path(service_account)
        if not (folder / "token").exists():
            raise ConfigError(f"no service account token at {folder / 'token'}")
        namespace = folder / "namespace"
        authority = folder / "ca.crt"
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            tls=TlsOptions(ca_file=str(authority) if authority.exists() else ""),
            token_file=str(folder / "token"),
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
        )

    @classmethod
    def _from_context(cls, context: Context, env: Mapping[str, str]) -> Self:
        cluster, user = context.cluster, context.user
        server = str(cluster.get("server") or "")
        if not server:
            raise ConfigError(f'the cluster of context "{context.name}" has no server')
        if user.get("auth-provider"):
            name = (user["auth-provider"] or {}).get("name", "")
            raise ConfigError(f'auth-provider "{name}" was removed from Kubernetes: use an exec plugin')
        return cls(
            server=server,
            tls=TlsOptions(
                ca_data=decode_data(cluster, "certificate-authority-data"),
                ca_file=""
                if cluster.get("certificate-authority-data")
                else str(cluster.get("certificate-authority") or ""),
                insecure=bool(cluster.get("insecure-skip-tls-verify")),
                server_name=str(cluster.get("tls-server-name") or ""),
                cert_data=decode_data(user, "client-certificate-data"),
                key_data=decode_data(user, "client-key-data"),
                cert_file=""
                if user.get("client-certificate-data")
                else str(user.get("client-certificate") or ""),
                key_file="" if user.get("client-key-data") else str(user.get("client-key") or ""),
            ),
            namespace=context.namespace or "default",
            token=str(user.get("token") or ""),
            token_file=str(user.get("tokenFile") or ""),
            username=str(user.get("username") or ""),
            password=str(user.get("password") or ""),
            exec=_exec_options(user.get("exec")),
            impersonate=_impersonation(user),
            proxy=str(cluster.get("proxy-url") or "") or _environment_proxy(server, env),
        )

    def evolve(self, **changes: object) -> Self:
        """A copy with some settings replaced."""
        return msgspec.structs.replace(self, **changes)

    def credential(self) -> Credential:
        """The credential these settings describe; a token file wins over a token, both over the rest."""
        if self.token_file:
            return FileToken(self.token_file)
        if self.token:
            return StaticToken(self.token)
        if self.exec is not None:
            return ExecPlugin(
                self.exec.command,
                self.exec.args,
                env=dict(self.exec.env),
                api_version=self.exec.api_version,
                cluster=self._cluster_info() if self.exec.provide_cluster_info else None,
                install_hint=self.exec.install_hint,
                interactive_mode=self.exec.interactive_mode,
            )
        if self.username:
            return BasicAuth(self.username, self.password)
        return Anonymous()

    def _cluster_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"server": self.server}
        if self.tls.server_name:
            info["tls-server-name"] = self.tls.server_name
        if self.tls.insecure:
            info["insecure-skip-tls-verify"] = True
        authorities = self.tls.ca_data.encode() or _read_file(self.tls.ca_file)
        if authorities:
            info["certificate-authority-data"] = base64.b64encode(authorities).decode()
        if self.proxy:
            info["proxy-url"] = self.proxy
        return info

    def headers(self) -> Headers:
        """Headers every request carries: user agent and impersonation."""
        return (("user-agent", self.user_agent or user_agent()), *self.impersonate.headers())

    def transport(self, *, on_resolved: Callable[[str, float], None] | None = None) -> HttpTransport:
        """A new HTTP transport; close it with ``aclose``. ``on_resolved`` times look-ups of host names."""
        return HttpTransport(
            self.server,
            tls=self.tls,
            credential=self.credential(),
            proxy=self.proxy,
            timeout=self.timeout,
            max_idle=(self.max_in_flight or 64) + 8,
            on_resolved=on_resolved,
        )


def user_agent(component: str = "") -> str:
    """``<program>/<version> (<os>/<arch>) quarterdeck/<version>``, then ``component`` if given."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c") else "python"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    text = (
        f"{program}/{__version__} ({platform.system().lower()}/{machine.lower()}) quarterdeck/{__version__}"
    )
    return f"{text} {component}" if component else text


def _exec_options(entry: Mapping[str, Any] | None) -> ExecOptions | None:
    if not entry:
        return None
    if not entry.get("command"):
        raise ConfigError("exec plugin in the kubeconfig has no command")
    return ExecOptions(
        command=str(entry["command"]),
        args=tuple(str(arg) for arg in entry.get("args") or ()),
        env=tuple((str(pair["name"]), str(pair["value"])) for pair in entry.get("env") or ()),
        api_version=str(entry.get("apiVersion") or ""),
        install_hint=str(entry.get("installHint") or ""),
        interactive_mode=str(entry.get("interactiveMode") or "IfAvailable"),
        provide_cluster_info=bool(entry.get("provideClusterInfo")),
    )


def _impersonation(user: Mapping[str, Any]) -> Impersonation:
    extra = user.get("as-user-extra") or {}
    return Impersonation(
        user=str(user.get("as") or ""),
        uid=str(user.get("as-uid") or ""),
        groups=tuple(str(group) for group in user.get("as-groups") or ()),
        extra=tuple((str(key), str(value)) for key, values in extra.items() for value in values),
    )


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes() if path else b""
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _environment_proxy(server: str, env: Mapping[str, str]) -> str:
    """``HTTPS_PROXY`` and ``NO_PROXY``, as Go programs read them; loopback is never proxied."""
    url = urlsplit(server)
    host = url.hostname or ""
    name = f"{url.scheme}_proxy"
    proxy = env.get(name) or env.get(name.upper()) or ""
    if not proxy or host in ("localhost", "::1") or host.startswith("127."):
        return ""
    excluded = env.get("no_proxy") or env.get("NO_PROXY") or ""
    for entry in (part.strip().lstrip("*").lstrip(".") for part in excluded.split(",")):
        if entry and (host == entry or host.endswith(f".{entry}") or entry == f"{host}:{url.port}"):
            return ""
    return "" if excluded.strip() == "*" else proxy


def _escape(key: str) -> str:
    """Header names allow few characters: percent-encode the others, as client-go does."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "!#$&'*+-.^_`|~") else _percent(c) for c in key)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())
