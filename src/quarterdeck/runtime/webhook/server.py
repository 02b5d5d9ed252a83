"""The webhook server: HTTPS, one path per handler, on every replica.

::

    server = WebhookServer(certificates=FileCertificates("/certs"))
    server.add(Validator(PodGroup, check))
    server.add_conversion(Conversion(v1.NodeGroup, v1alpha1.NodeGroup))
    async with server:
        ...

It starts before caches do (the first list may need the conversion webhook) and needs no leadership. The
certificate may change while it runs: new handshakes use the new one, open connections live on.
"""

import asyncio
import ssl
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from time import perf_counter
from types import TracebackType
from typing import Final, Self

import msgspec

from quarterdeck.client import Client
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate import (
    CertificateSource,
    FileCertificates,
    KeyPair,
    Publish,
    SelfSigned,
    ServingContext,
    UsePair,
)
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.metrics import RuntimeMetrics, WebhookMetrics
from quarterdeck.runtime.trace import NO_TRACER, Tracer
from quarterdeck.runtime.webhook import convert_endpoint, endpoint
from quarterdeck.runtime.webhook.configuration import Target, WebhookInstaller
from quarterdeck.runtime.webhook.conversion import Converter
from quarterdeck.runtime.webhook.convert_endpoint import ConversionEndpoint
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.runtime.webhook.handler import AdmissionWebhook
from quarterdeck.runtime.webhook.http import path_server
from quarterdeck.runtime.webhook.path import CONVERT_PATH, check_path
from quarterdeck.wire.http import Handler, Request, Response, Route

DEFAULT_PORT: Final = 9443
_log: Final = get_logger(__name__)


class WebhookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how webhooks are served."""

    host: str = ""
    """Address to listen on; empty means all, because the API server calls from elsewhere."""
    port: int = DEFAULT_PORT
    """0 picks a free one, -1 serves nothing."""
    client_ca: str = ""
    """File with the authorities of client certificates; given, a client must have one (mutual TLS)."""
    drain: float = 60.0
    """Seconds that requests under way may take when the server stops."""


class WebhookServer:
    """Serves admission and conversion handlers; use it with ``async with``, or ``run`` it."""

    group: Final = Group.WEBHOOKS
    """Every replica serves, from before its caches start, however this was added to a manager."""

    def __init__(
        self,
        options: WebhookOptions | None = None,
        *,
        certificates: CertificateSource | None = None,
        metrics: RuntimeMetrics | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """``certificates`` default to ``tls.crt`` and ``tls.key`` in the usual temporary directory."""
        self.options: Final = options if options is not None else WebhookOptions()
        self._certificates: Final = certificates if certificates is not None else FileCertificates()
        self._metrics: Final = metrics if metrics is not None else RuntimeMetrics()
        self._tracer: Final = tracer
        self._routes: Final[dict[str, Route]] = {}
        self._webhooks: Final[list[AdmissionWebhook]] = []
        self._conversion: ConversionEndpoint | None = None
        self._folders: Final[dict[str, Route]] = {}
        self._http: Final = path_server(self._find)
        self._stack: AsyncExitStack | None = None

    def add(self, *webhooks: AdmissionWebhook) -> None:
        """Serve admission handlers; raises ``ConfigError`` when a path is taken."""
        for webhook in webhooks:
            target = AdmissionEndpoint(webhook, panics=self._metrics.webhook_panics)
            self.register(webhook.path, target.handle, body_limit=endpoint.BODY_LIMIT)
            self._webhooks.append(webhook)

    def add_conversion(self, *conversions: Converter) -> None:
        """Serve conversions at ``/convert``; raises ``ConfigError`` for a kind that has one already."""
        if self._conversion is None:
            self._conversion = ConversionEndpoint(panics=self._metrics.conversion_panics)
            self.register(CONVERT_PATH, self._conversion.handle, body_limit=convert_endpoint.BODY_LIMIT)
        for conversion in conversions:
            self._conversion.add(conversion)

    def register(self, path: str, handler: Handler, *, body_limit: int = endpoint.BODY_LIMIT) -> None:
        """Serve any HTTP handler at a path of its own; counted and timed like the others."""
        check_path(path)
        if path in self._routes:
            raise ConfigError(f"can't register duplicate path: {path}")
        traced = _traced(handler, self._tracer, path) if self._tracer.is_enabled else handler
        self._routes[path] = Route(_instrumented(traced, self._metrics.webhook(path)), body_limit)
        _log.info("Registering webhook", path=path)

    def register_folder(self, path: str, handler: Handler, *, body_limit: int = endpoint.BODY_LIMIT) -> None:
        """Serve any HTTP handler for all paths under one; counted and timed under that one."""
        if path in self._folders:
            raise ConfigError(f"can't register duplicate path: {path}")
        self._folders[path] = Route(_instrumented(handler, self._metrics.webhook(path)), body_limit)

    def _find(self, path: str) -> Route | None:
        found = self._routes.get(path)
        if found is None:
            for folder, route in self._folders.items():
                if path.startswith(f"{folder}/"):
                    return route
        return found

    @property
    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """The admission handlers served."""
        return tuple(self._webhooks)

    @property
    def conversions(self) -> tuple[Converter, ...]:
        """The kinds converted."""
        return self._conversion.converters if self._conversion is not None else ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to serve."""
        return not self._routes and not self._folders

    def bind(self, client: Client, publish: Publish | None = None) -> None:
        """Give self-signed certificates the client they need, and the way to publish their bundle."""
        if isinstance(self._certificates, SelfSigned):
            self._certificates.bind(client, publish)

    def installer(self, client: Client, name: str, target: Target) -> WebhookInstaller:
        """What keeps the configurations of everything served here in the cluster, under one name."""
        return WebhookInstaller(client, name, target, webhooks=self.webhooks, conversions=self.conversions)

    @property
    def port(self) -> int:
        """The port listened on; 0 before the start."""
        return self._http.address[1]

    @property
    def _is_enabled(self) -> bool:
        return self.options.port >= 0 and not self.is_empty

    @property
    def is_serving(self) -> bool:
        """Whether it is called here: connections are accepted, and the API server was told the address.

        Configurations of an earlier run may name another address or authority: what is written before they
        are corrected is refused. Also true when there is nothing to serve.
        """
        if not self._is_enabled:
            return True
        has_told = not isinstance(self._certificates, SelfSigned) or self._certificates.has_told
        return self._http.is_serving and has_told

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Load the certificate and listen; raises ``ConfigError`` or ``OSError`` when it cannot.

        With nothing to serve it does neither.
        """
        if not self._is_enabled:
            return
        async with AsyncExitStack() as stack:
            context = ServingContext(client_ca=self.options.client_ca)
            await stack.enter_async_context(self._certificates.serve(self._using(context)))
            await self._http.start(self.options.host, self.options.port, context.ssl)
            stack.push_async_callback(self._http.stop, drain=self.options.drain)
            self._stack = stack.pop_all()
        _log.info("Serving webhook server", host=self.options.host, port=self.port)

    def _using(self, context: ServingContext) -> UsePair:
        """Serve a pair, and show until when it is good."""

        def use(pair: KeyPair) -> None:
            # Late: loading the cryptography takes longer than the rest of a start.
            from quarterdeck.wire.certificate import expiry_of

            context.replace(pair)
            self._metrics.certificate_expiry.labelled().set(expiry_of(pair.certificate))

        return use

    async def stop(self) -> None:
        """Stop listening and let requests under way end."""
        if self._stack is not None:
            _log.info("Shutting down webhook server with timeout", seconds=self.options.drain)
            stack, self._stack = self._stack, None
            await stack.aclose()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self:
            await asyncio.get_running_loop().create_future()

    async def check(self) -> None:
        """A readiness check: raises unless a TLS handshake with this server succeeds within 10 s.

        With self-signed certificates also until their authority is known wherever we are called from.
        """
        if not self._is_enabled:
            return
        if not self._http.is_serving:
            raise ConfigError("webhook server has not been started yet")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        host = self.options.host
        target = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104  compared, not bound
        try:
            async with asyncio.timeout(10):
                _, writer = await asyncio.open_connection(target, self.port, ssl=context)
        except (OSError, TimeoutError) as error:
            raise ConfigError(f"webhook server is not reachable: {error}") from error
        writer.transport.abort()
        if isinstance(self._certificates, SelfSigned):
            await self._certificates.check()


def _traced(handler: Handler, tracer: Tracer, path: str) -> Handler:
    """A span around every request."""

    async def handle(request: Request) -> Response:
        with tracer.span("webhook", {"webhook": path, "bytes": len(request.body)}) as span:
            answer = handler(request)
            response = answer if isinstance(answer, Response) else await answer
            span.set("code", response.status)
            return response

    return handle


def _instrumented(handler: Handler, metrics: WebhookMetrics) -> Handler:
    """Count, time and gauge what a handler does."""
    in_flight = metrics.in_flight

    def handle(request: Request) -> Response | Awaitable[Response]:
        started = perf_counter()
        in_flight.value += 1
        try:
            result = handler(request)
        except BaseException:
            in_flight.value -= 1
            metrics.answered(500, perf_counter() - started)
            raise
        if not isinstance(result, Response):
            return wait(result, started)
        in_flight.value -= 1
        metrics.answered(result.status, perf_counter() - started)
        return result

    async def wait(pending: Awaitable[Response], started: float) -> Response:
        code = 500
        try:
            response = await pending
            code = response.status
            return response
        finally:
            in_flight.value -= 1
            metrics.answered(code, perf_counter() - started)

    return handle
