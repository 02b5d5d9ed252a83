"""The embedded API server put together: storage, registry, admission, authentication, sockets.

    async with ApiServer(ServerOptions(data_dir=...)) as server:
        print(server.url, server.kubeconfig())

Starting opens the store, serves the stored CRDs and creates what every cluster has (namespaces,
roles, priority classes); the socket accepts connections only when all of that is done.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import KUBERNETES_VERSION
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.registry.patch.patcher import Patcher
from quarterdeck.apiserver.registry.read.reader import Reader
from quarterdeck.apiserver.registry.watch.watcher import Watcher
from quarterdeck.apiserver.registry.write.delete import DeleteOptions, Deleter
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.wire.http import ByteTransport, HttpServer, Request, Response
from quarterdeck.wire.wallclock import timestamp

from .admission.chain import AdmissionChain
from .admission.plugin import FOR_TESTS, NODE_RESTRICTION
from .admission.plugin.podsecurity import PodSecurityConfiguration
from .app import App, Peer
from .auth import (
    ADMIN,
    Authenticator,
    Authorizer,
    Credentials,
    NodeAuthorizer,
    ServiceAccountTokens,
    UserInfo,
    build_kubeconfig,
    load_token_file,
    open_credentials,
    write_kubeconfig,
)
from .auth.bootstrap import node_rules
from .auth.discovery import CONFIGURATION_PATH, KEYS_PATH, serve_discovery
from .builtins import builtin_resources
from .crd.conversion import Converter
from .crd.customresource import CustomResource
from .crd.lifecycle import DefinitionLifecycle
from .discovery.groups import Discovery
from .discovery.openapi import OpenApi
from .document.negotiate import PLAIN
from .inprocess import LocalServer
from .registry.pod.action import PodActions
from .registry.pod.log import is_simulated, simulated_log
from .registry.pod.stream import PodStreams
from .registry.request import ApiRequest
from .registry.subresource import Subresources
from .registry.virtual import VirtualResources
from .requestinfo import RequestInfo
from .resource.resourcetable import ResourceTable
from .resource.serviceallocator import AddressPool
from .state.apiservices import LocalServices
from .state.bootstrap import Bootstrap
from .state.clusterstate import StoredState
from .state.host import AdmissionHost
from .state.index import Apply, follow
from .state.noderelations import StoredRelations
from .state.ownservice import OwnService
from .state.quotastore import StoredQuotas
from .state.tokenuse import TokenUse
from .storage import Durability, Store
from .supervision import Supervisor
from .uid import new_uid
from .usage import GROUP as USAGE_GROUP
from .usage import VERSION as USAGE_VERSION
from .usage import UsageApi
from .webhookclient import Place, WebhookClient

_COMPACTION_PERIOD = 300.0
_COMPACTION_RETRY = 15.0
_DRAIN_SECONDS = 5.0
#: and `ping`, the one check of upstream's that can be asked for by itself here
_PROBES = frozenset(f"/{name}{check}" for name in ("healthz", "livez", "readyz") for check in ("", "/ping"))
_SYSTEM = UserInfo("system:apiserver", groups=("system:masters",))


@dataclass(frozen=True)
class ServerOptions:
    """How to run the server.

    data_dir: where state and certificates are kept; None keeps everything in memory.
    host, port: where to listen; port 0 picks a free one. Loopback unless you say otherwise.
    takes_any_port: if the port is in use, a free one will do.
    durability: what an acknowledged write survives (only with data_dir).
    token_file: static bearer tokens, one `token,user,uid,"group1,group2"` per line.
    allow_all: switch RBAC off but keep identities (development).
    admission_plugins: the names of those that run; see `admission.plugin.catalog`. With NodeRestriction nodes
        (`system:node:NAME` in system:nodes) also get the access a kubelet needs, by the Node authorizer.
    usage: serve `metrics.k8s.io` about pods of simulated nodes.
    pod_security: levels where a namespace has no labels, and who is exempt; None demands nothing.
    service_endpoints: (namespace, name) of a Service -> (host, port), for webhooks named by service.
    """

    data_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    takes_any_port: bool = False
    durability: Durability = Durability.FULL
    token_file: Path | None = None
    allow_all: bool = False
    admission_plugins: Collection[str] = FOR_TESTS
    pod_security: PodSecurityConfiguration | None = None
    usage: bool = False
    service_endpoints: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)


class ApiServer:
    """A running server; an async context manager."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self._http: HttpServer | None = None
        self._private_http: HttpServer | None = None
        self._chores = Supervisor()
        #: what was put together so far and must be closed, last first
        self._parts = AsyncExitStack()
        self._checks: dict[str, Callable[[], bool]] = {}
        self._metric_sources: list[Callable[[], Awaitable[bytes]]] = []
        #: the way to nodes of this machine that run pods
        self.nodes = NodeLink()
        self.is_ready = False
        self.port = self.options.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"https://{self.options.host}:{self.port}"

    def add_check(self, name: str, check: Callable[[], bool]) -> None:
        """Make readiness depend on something else that runs in this process."""
        self._checks[name] = check

    def add_metrics(self, source: Callable[[], Awaitable[bytes]]) -> None:
        """Show metrics of something else that belongs to the cluster, in the Prometheus text format."""
        self._metric_sources.append(source)

    async def start(self, *, listen: bool = True) -> None:
        """Open the store and serve; with `listen` False only in-process requests are answered."""
        options = self.options
        directory = options.data_dir
        self.store = Store(directory, options.durability)
        try:
            self.credentials: Credentials = await asyncio.to_thread(
                open_credentials, None if directory is None else directory / "pki", now=datetime.now(UTC)
            )
            self._assemble()
            await self._bootstrap.run()
            await self._definitions.start()
            await self._chores.start("crd-lifecycle", self._definitions.sync, self._definitions.changed)
            services = LocalServices(self.store, self.table, self._computed)
            await self._chores.start("api-services", services.sync, services.changed)
            await self._chores.start("compaction", self.store.compact, self._compaction_due)
            if listen:
                await self._listen()
            own = OwnService(self.store, self.table, self._bootstrap, self.options.host, self.port)
            self._parts.callback(own.close)
            await self._chores.start("kubernetes-service", own.sync, own.changed)
        except BaseException:
            await self.stop()
            raise
        self.is_ready = True

    async def _listen(self) -> None:
        context: ssl.SSLContext = await asyncio.to_thread(self.credentials.server_context)
        self._http = self._http_server(_peer_of)
        try:
            await self._http.start(self.options.host, self.options.port, context)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not self.options.takes_any_port:
                raise
            await self._http.start(self.options.host, 0, context)
        self.port = self._http.address[1]
        self._discovery.server_address = f"{self.options.host}:{self.port}"

    async def listen_privately(self, path: Path) -> None:
        """Serve on a Unix socket as well, without TLS: whoever can open it is the administrator."""
        self._private_http = self._http_server(lambda _: Peer(user=ADMIN.authenticated()))
        await self._private_http.start_at_path(path)

    def _http_server(self, peer_of: Callable[[ByteTransport], Peer]) -> HttpServer:
        return HttpServer(
            self.app.admit,
            on_error=self.app.on_error,
            stamp=_stamp,
            peer_of=peer_of,
            ends_with_peer=True,  # a client that has gone stores nothing
        )

    async def stop(self) -> None:
        """Finish requests in progress, end watches, flush and close the store."""
        self.is_ready = False
        for http in (self._private_http, self._http):
            if http is not None:
                await http.stop(drain=_DRAIN_SECONDS)
        await self._chores.stop()
        await self._parts.aclose()
        await self.store.close()

    async def _compaction_due(self) -> None:
        has_failed = self.store.compaction_failure is not None
        await asyncio.sleep(_COMPACTION_RETRY if has_failed else _COMPACTION_PERIOD)

    def _assemble(self) -> None:
        options = self.options
        table = self.table = ResourceTable()
        for resource in builtin_resources(self.store):
            table.add_builtin(resource)
        cluster = self.cluster = StoredState(table)
        self.authorizer = cluster.authorizer = Authorizer(allow_all=options.allow_all)
        tokens = self._tokens = ServiceAccountTokens(self.credentials.service_account_key)
        static = load_token_file(options.token_file) if options.token_file else {}
        self.authenticator = Authenticator(
            cluster,
            service_accounts=tokens,
            static_tokens=static,
            on_secret_used=lambda namespace, name: self._token_use.used(namespace, name),
        )
        if NODE_RESTRICTION in options.admission_plugins:
            pods = table.versions_of("", "pods")[0]
            self.authorizer.ask_also(NodeAuthorizer(StoredRelations(pods, cluster), node_rules()))
        self._webhooks = WebhookClient(self._resolve_service)
        self._parts.callback(self._webhooks.close)
        host = AdmissionHost(table, cluster, self.authorizer)
        quotas = StoredQuotas(self.store, table.versions_of("", "resourcequotas")[0])
        self.admission = AdmissionChain(
            host, self._webhooks, quotas, options.admission_plugins, options.pod_security
        )
        pool = cluster.service_allocator = AddressPool()
        self._follow("", partial(_service_changed, pool), "services")
        self._follow("rbac.authorization.k8s.io", self.authorizer.apply_change)
        self._follow("admissionregistration.k8s.io", self._admission_changed)
        self._follow("", self._quota_changed, "resourcequotas")
        reader = Reader(self.store)
        writer = Writer(self.store, self.admission, cluster, self.authorizer)
        self._token_use = TokenUse(writer, table.versions_of("", "secrets")[0])
        deleter = self._deleter = Deleter(self.store, self.admission, cluster)
        patcher = Patcher(writer)
        watcher = Watcher(self.store)
        pod_actions = PodActions(table, writer, deleter, self.admission)
        streams = PodStreams(self.nodes, self.admission, cluster, self.authorizer)
        subresources = Subresources(
            reader, writer, patcher, pod_actions, self.admission, tokens, self.pod_log, streams
        )
        virtual = VirtualResources(
            self.authenticator, self.authorizer, pod_actions, self.admission, self.cluster
        )
        usage = UsageApi(table, self.nodes) if options.usage else None
        self._computed = {(USAGE_GROUP, USAGE_VERSION): usage.entries()} if usage is not None else {}
        self._discovery = Discovery(table, self._computed)
        self._openapi = OpenApi(table, KUBERNETES_VERSION)
        self.app = App(
            table=table,
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            reader=reader,
            writer=writer,
            patcher=patcher,
            deleter=deleter,
            watcher=watcher,
            subresources=subresources,
            virtual=virtual,
            discovery=self._discovery,
            non_resource=self._serve_path,
            usage=usage,
        )
        definitions = table.get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert definitions is not None
        self._definitions = DefinitionLifecycle(
            self.store,
            definitions.bucket,
            table,
            make_converter=lambda crd: Converter(crd, self._webhooks),
            delete_instance=self._delete_instance,
            on_unserved=watcher.close_resources,
            now=timestamp,
        )
        self._parts.callback(self._definitions.close)
        self._parts.push_async_callback(self._token_use.close)
        self._bootstrap = Bootstrap(self.store, table, options.port)

    def _follow(self, group: str, apply_change: Apply, only: str = "") -> None:
        """Keep an in-memory index in step with the stored objects of a group, or of one resource of it."""
        for resource in self.table.resources(group, "v1"):
            if not only or resource.plural == only:
                follow(resource, apply_change)

    def _admission_changed(self, resource: str, namespace: str, name: str, obj: Json | None) -> None:
        self.admission.apply_change(resource, name, obj)

    def _quota_changed(self, resource: str, namespace: str, name: str, obj: Json | None) -> None:
        self.admission.apply_quota(namespace, name, obj)

    def _resolve_service(self, namespace: str, name: str, port: int) -> Place | tuple[str, int] | None:
        from .state.host import resolve_service

        known = self.options.service_endpoints.get((namespace, name))
        if known is not None:
            return known
        return resolve_service(self.cluster, namespace, name, port, self.nodes)

    async def _delete_instance(self, resource: CustomResource, namespace: str, name: str) -> None:
        path = f"/apis/{resource.api_version}/namespaces/{namespace}/{resource.plural}/{name}"
        if not namespace:
            path = f"/apis/{resource.api_version}/{resource.plural}/{name}"
        http = Request("DELETE", path, "", {}, b"", peer=Peer(user=_SYSTEM))
        request = ApiRequest(http, RequestInfo("DELETE", path), resource, _SYSTEM, PLAIN)
        await self._deleter.delete_object(request, name, DeleteOptions({}))

    def pod_log(self, pod: Json, container: str) -> bytes:
        """What is shown as the log of a container on a node that this server cannot ask."""
        node = self.table.versions_of("", "nodes")[0].bucket.get("", pod["spec"]["nodeName"])
        return simulated_log(pod, container) if node is not None and is_simulated(node.labels) else b""

    def _serve_path(self, request: Request, user: UserInfo) -> Response | Awaitable[Response] | None:
        path = request.path
        if not path.startswith(("/healthz", "/livez", "/readyz")):
            path = path.rstrip("/")
        if path.startswith("/openapi/"):
            return self._openapi.serve(request)
        if path.startswith(("/.well-known/", "/openid/")):
            return serve_discovery(path, self._tokens)
        if path == "/version":
            return Response(200, msgspec.json.format(msgspec.json.encode(version_document())))
        if path in _PROBES:
            return self._health(request, path)
        if request.path == "/":
            return Response(200, msgspec.json.encode({"paths": self._paths()}))
        if path == "/metrics":
            return self._metrics()
        return None

    def _health(self, request: Request, path: str) -> Response:
        name = path.split("/")[1]
        store = self.store
        checks = {
            "ping": True,
            "storage": store.failure is None,
            "compaction": store.compaction_failure is None,
            "definitions": self.is_ready,
        }
        for chore, is_well in self._chores.checks().items():
            checks[chore] = is_well and checks.get(chore, True)
        checks |= {check: holds() for check, holds in self._checks.items()}
        if name == "livez":  # a restart helps
            checks = {"ping": True, "storage": not store.is_stuck}
        good = all(checks.values())
        if good and "verbose" not in request.query:
            return Response(200, b"ok", content_type="text/plain; charset=utf-8")
        lines = [
            f"[+]{check} ok" if ok else f"[-]{check} failed: reason withheld" for check, ok in checks.items()
        ]
        lines.append(f"{name} check {'passed' if good else 'failed'}")
        return Response(
            200 if good else 500, ("\n".join(lines) + "\n").encode(), content_type="text/plain; charset=utf-8"
        )

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3"]
        paths += [CONFIGURATION_PATH, KEYS_PATH]
        for group, versions in self.table.groups():
            if group:
                paths.append(f"/apis/{group}")
                paths += [f"/apis/{group}/{version}" for version in versions]
        return sorted([*paths, "/readyz", "/version"])

    async def _metrics(self) -> Response:
        lines = [
            "# TYPE quarterdeck_apiserver_revision gauge",
            f"quarterdeck_apiserver_revision {self.store.rev}",
            "# TYPE apiserver_storage_objects gauge",
        ]
        for resource in self.table.all():
            if "list" in resource.verbs:
                lines.append(
                    f'apiserver_storage_objects{{resource="{resource.qualified}"}} {resource.bucket.count}'
                )
        own = ("\n".join(dict.fromkeys(lines)) + "\n").encode()
        others = [await source() for source in self._metric_sources]
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        return Response(200, own + b"".join(others), content_type=content_type)

    def kubeconfig(self, name: str = "quarterdeck") -> dict[str, Any]:
        """A kubeconfig document for the administrator; cluster, user and context have that name."""
        return build_kubeconfig(self.url, self.credentials.authority, self.credentials.admin, name=name)

    def sign_token(self, claims: Mapping[str, Any]) -> str:
        """A token for a Secret of type `kubernetes.io/service-account-token`; the issuer is filled in."""
        return self._tokens.issue_legacy(claims)

    def write_kubeconfig(self, path: Path) -> None:
        write_kubeconfig(path, self.kubeconfig())

    def local(self, user: UserInfo = ADMIN) -> LocalServer:
        """The server for a client in this process, without sockets; by default for the administrator."""
        return LocalServer(self.app, user)


def _service_changed(pool: AddressPool, resource: str, namespace: str, name: str, obj: Json | None) -> None:
    if obj is None:
        pool.release(f"{namespace}/{name}")
    else:
        pool.hold(obj)


def _peer_of(transport: ByteTransport) -> Peer:
    session = transport.get_extra_info("ssl_object")
    return Peer(session.getpeercert(True) if isinstance(session, ssl.SSLObject) else None)


def _stamp(response: Response) -> bytes:
    """What stands in every answer: an id for the audit log, and that nobody should keep it."""
    uid = new_uid().encode()
    for name, _ in response.headers:
        if name == "Cache-Control":
            return b"Audit-Id: %b\r\n" % uid
    return b"Audit-Id: %b\r\nCache-Control: no-cache, private\r\n" % uid


def version_document() -> Json:
    import platform
    import sys

    from quarterdeck import __version__

    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"{KUBERNETES_VERSION}+quarterdeck",
        "gitCommit": f"quarterdeck-{__version__}",
        "gitTreeState": "clean",
        "buildDate": "2026-11-15T00:00:00Z",
        "goVersion": f"python{sys.version_info[0]}.{sys.version_info[1]}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{'arm64' if platform.machine() == 'aarch64' else 'amd64'}",
    }
