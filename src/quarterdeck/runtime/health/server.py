"""The two small servers of a manager: probes, and metrics.

They start before everything else, so that probes answer while caches fill, and stop last. Both listen on
loopback unless told otherwise: in a pod, say ``:8081`` (all addresses), because the kubelet asks from
outside. An empty address or ``0`` switches a server off.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate import CertificateSource, ServingContext
from quarterdeck.runtime.health.access import AccessReviewer
from quarterdeck.runtime.health.check import HealthChecks
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.check import BuiltinChecks
from quarterdeck.runtime.metrics import CONTENT_TYPE, Registry
from quarterdeck.runtime.webhook.http import path_server
from quarterdeck.wire.http import Handler, Request, Response, Route

METRICS_PATH: Final = "/metrics"
_log: Final = get_logger(__name__)


def parse_address(address: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` or ``:port``; ``None`` when it says off. Raises ``ConfigError``.

    >>> parse_address(":8080"), parse_address("[::1]:0"), parse_address("0")
    (('', 8080), ('::1', 0), None)
    """
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f'invalid bind address "{address}": it must be host:port, or 0 to switch it off')
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine only, or switched off.

    >>> is_loopback("127.0.0.1:8080"), is_loopback(":8080"), is_loopback("0")
    (True, False, True)
    """
    parsed = parse_address(address)
    if parsed is None:
        return True
    try:
        return ip_address(parsed[0]).is_loopback
    except ValueError:
        return parsed[0] == "localhost"


class _Server:
    """What both servers share: an address, a life."""

    group: Final = Group.SERVERS

    def __init__(self, address: str) -> None:
        self._address: Final = parse_address(address)
        self._http: Final = path_server(self._find)
        self._stack: AsyncExitStack | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether it listens at all."""
        return self._address is not None

    @property
    def is_serving(self) -> bool:
        """Whether connections are accepted; also true when it is switched off."""
        return not self.is_enabled or self._http.is_serving

    @property
    def address(self) -> tuple[str, int]:
        """Host and port listened on."""
        return self._http.address

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; raises ``OSError`` when the address is taken. Does nothing when switched off."""
        if self._address is None:
            return
        async with AsyncExitStack() as stack:
            await self._listen(stack)
            self._stack = stack.pop_all()

    async def _listen(self, stack: AsyncExitStack) -> None:
        assert self._address is not None
        await self._http.start(*self._address)
        stack.push_async_callback(self._http.stop, drain=5.0)

    async def stop(self) -> None:
        """Stop listening."""
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.aclose()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self:
            await asyncio.get_running_loop().create_future()

    def _find(self, path: str) -> Route | None:
        raise NotImplementedError


class HealthServer(_Server):
    """Serves ``/healthz`` and ``/readyz``, and handlers of others at paths of their own."""

    def __init__(
        self,
        address: str = "127.0.0.1:8081",
        *,
        liveness: HealthChecks | None = None,
        readiness: HealthChecks | None = None,
        built_in: bool = True,
    ) -> None:
        """Paths are the names of the checks: ``HealthChecks("livez")`` is served at ``/livez``.

        ``built_in`` takes in the checks of the manager that the server is added to.
        """
        super().__init__(address)
        self._built_in: Final = built_in
        self.liveness: Final = liveness if liveness is not None else HealthChecks("healthz")
        self.readiness: Final = readiness if readiness is not None else HealthChecks("readyz")
        self._routes: Final = {
            checks.name: Route(checks.handle) for checks in (self.liveness, self.readiness)
        }

    def add(self, path: str, handler: Handler) -> None:
        """Serve something else as well, to everybody; raises ``ConfigError`` for a path that is taken."""
        name = path.strip("/")
        if name in self._routes:
            raise ConfigError(f"path {path} is served already beside the probes")
        self._routes[name] = Route(handler)

    def adopt_checks(self, checks: BuiltinChecks) -> None:
        """Take in the checks of a manager; raises ``ValueError`` if others have their names."""
        if self._built_in:
            self.readiness.add_all(checks.readiness())
            self.liveness.add_all(checks.liveness())

    def _find(self, path: str) -> Route | None:
        return self._routes.get(path.strip("/").split("/", 1)[0])


class MetricsServer(_Server):
    """Serves ``/metrics``, and handlers of others at paths of their own.

    ``certificates`` turn on TLS. With a ``reviewer`` every request needs a token that the API server knows
    and the right to get the path; without TLS that would send tokens in the clear, so it is refused.
    """

    def __init__(
        self,
        registry: Registry,
        address: str = "127.0.0.1:8080",
        *,
        certificates: CertificateSource | None = None,
        reviewer: AccessReviewer | None = None,
        extra: Mapping[str, Handler] | None = None,
    ) -> None:
        super().__init__(address)
        if reviewer is not None and certificates is None:
            raise ConfigError("metrics with access review need TLS: pass certificates")
        self._registry: Final = registry
        self._certificates: Final = certificates
        self._reviewer: Final = reviewer
        self._routes: Final = {METRICS_PATH: Route(self._guarded(self._expose))}
        for path, handler in (extra or {}).items():
            self.add(path, handler)

    def add(self, path: str, handler: Handler) -> None:
        """Serve something else as well; a path that ends in a slash stands for everything below it.

        Raises ``ConfigError`` for ``/metrics`` and paths that are taken.
        """
        if path == METRICS_PATH:
            raise ConfigError(f"overriding builtin {METRICS_PATH} endpoint is not allowed")
        if path in self._routes:
            raise ConfigError(f"can't register extra handler by duplicate path {path} on metrics http server")
        self._routes[path] = Route(self._guarded(handler))

    async def _listen(self, stack: AsyncExitStack) -> None:
        assert self._address is not None
        context: ServingContext | None = None
        if self._certificates is not None:
            context = ServingContext()
            await stack.enter_async_context(self._certificates.serve(context.replace))
        await self._http.start(*self._address, context.ssl if context is not None else None)
        stack.push_async_callback(self._http.stop, drain=5.0)
        _log.info(
            "Serving metrics server", bindAddress=":".join(map(str, self.address)), secure=bool(context)
        )

    def _find(self, path: str) -> Route | None:
        exact = self._routes.get(path)
        if exact is not None:
            return exact
        above = (known for known in self._routes if known.endswith("/") and path.startswith(known))
        return self._routes.get(max(above, key=len, default=""))

    def _expose(self, request: Request) -> Response:
        return Response(200, self._registry.expose(), CONTENT_TYPE)

    def _guarded(self, handler: Handler) -> Handler:
        return handler if self._reviewer is None else self._reviewer.guard(handler)
