"""Health checks: named functions that raise when something is wrong, and how they are shown.

The text is that of Kubernetes components: ``ok`` when all is well, else (or with ``?verbose``) one line per
check. Reasons are withheld from plain answers, because probes are open to everybody who reaches the port; who
asks with ``?verbose`` gets them.

Checks that belong to a manager are made by the functions below; each takes just what it looks at.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qsl

from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime._logfield import get_logger
from quarterdeck.runtime.webhook.http import Request, Response, text

__all__ = [
    "Check",
    "HealthChecks",
    "Unhealthy",
    "caches_synced",
    "informers_allowed",
    "informers_heard",
    "loop_responsive",
    "ping",
]

CHECK_TIMEOUT: Final = 10.0
_log: Final = get_logger(__name__)

Check: TypeAlias = Callable[[], Awaitable[None] | None]
"""Raises, with the reason as its message, when something is wrong."""


class Unhealthy(QuarterdeckError):
    """A check failed; the message says why."""


def ping() -> None:
    """The check that always passes: whoever hears the answer knows that the process is there."""


class HealthChecks:
    """The checks of one endpoint (``healthz`` or ``readyz``)."""

    def __init__(self, name: str) -> None:
        """``name`` is the path without its slash."""
        self.name: Final = name
        self._checks: Final[dict[str, Check]] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; raises ``ValueError`` if the name is taken."""
        if name in self._checks:
            raise ValueError(f'health check "{name}" exists already')
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Take a check away; harmless if there is none."""
        self._checks.pop(name, None)

    @property
    def names(self) -> tuple[str, ...]:
        """The checks, sorted; ``ping`` while there are none."""
        return tuple(sorted(self._checks)) or ("ping",)

    async def failures(self, excluded: Iterable[str] = ()) -> dict[str, str]:
        """Why checks fail, by name; empty when all is well."""
        skipped = frozenset(excluded)
        names = [name for name in self.names if name not in skipped]
        reasons = await asyncio.gather(*(self._run(name) for name in names))
        return {name: reason for name, reason in zip(names, reasons, strict=True) if reason}

    async def handle(self, request: Request) -> Response:
        """Answer ``/<name>`` and ``/<name>/<check>``."""
        single = request.path.removeprefix(f"/{self.name}").strip("/")
        if single:
            return await self._handle_one(single)
        query = parse_qsl(request.query, keep_blank_values=True)
        excluded = [value for key, value in query if key == "exclude"]
        failed = await self.failures(excluded)
        is_verbose = any(key == "verbose" for key, _ in query)
        if not failed and not is_verbose:
            return text(200, "ok")
        if failed:
            _log.info("healthz check failed", endpoint=self.name, checks=failed)
        return text(500 if failed else 200, self._report(failed, excluded, show_reasons=is_verbose))

    async def _handle_one(self, name: str) -> Response:
        if name not in self.names:
            return text(404, "404 page not found\n")
        reason = await self._run(name)
        return text(500, f"internal server error: {reason}\n") if reason else text(200, "ok")

    def _report(self, failed: dict[str, str], excluded: list[str], *, show_reasons: bool) -> str:
        lines = []
        for name in self.names:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif name in failed:
                lines.append(f"[-]{name} failed: {failed[name] if show_reasons else 'reason withheld'}")
            else:
                lines.append(f"[+]{name} ok")
        unknown = ",".join(f'"{name}"' for name in excluded if name not in self.names)
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        lines.append(f"healthz check {'failed' if failed else 'passed'}")
        return "\n".join(lines) + "\n"

    async def _run(self, name: str) -> str:
        """The reason why a check fails; empty when it passes."""
        try:
            pending = self._checks.get(name, ping)()
            if isawaitable(pending):
                async with asyncio.timeout(CHECK_TIMEOUT):
                    await pending
        except TimeoutError:
            return f"no answer within {CHECK_TIMEOUT:.0f} s"
        except Exception as error:  # noqa: BLE001  supervision point: a broken check is a failed check
            return str(error) or type(error).__name__
        return ""


class Syncing(Protocol):
    """Something with a first list, as ``quarterdeck.runtime.cache.Cache`` has one."""

    @property
    def has_synced(self) -> bool:
        """Whether it is complete."""
        ...


class _HealthLike(Protocol):
    @property
    def is_blocked(self) -> bool: ...


class InformerLike(Protocol):
    """The part of an informer that checks look at."""

    @property
    def gvk(self) -> object:
        """What it is about."""
        ...

    @property
    def health(self) -> _HealthLike:
        """How it is doing."""
        ...


def caches_synced(caches: Callable[[], Iterable[Syncing]]) -> Check:
    """Ready once every cache holds its first list."""

    def check() -> None:
        if not all(cache.has_synced for cache in caches()):
            raise Unhealthy("caches have not synced yet")

    return check


def informers_allowed(informers: Callable[[], Iterable[InformerLike]]) -> Check:
    """Ready while no watch is refused: a missing permission, a missing CRD; the reason names which."""

    def check() -> None:
        blocked = [
            f"{informer.gvk}: {informer.health}" for informer in informers() if informer.health.is_blocked
        ]
        if blocked:
            raise Unhealthy("; ".join(blocked))

    return check


def informers_heard(silences: Callable[[], Iterable[tuple[str, float]]], limit: float) -> Check:
    """Alive while no watch has been silent beyond its watchdog: pairs of kind and seconds of silence."""

    def check() -> None:
        silent = [f"{kind} for {seconds:.0f} s" for kind, seconds in silences() if seconds > limit]
        if silent:
            raise Unhealthy(f"no events, not even bookmarks: {', '.join(silent)}")

    return check


def loop_responsive(lag: Callable[[], float], limit: float = 5.0) -> Check:
    """Alive while the event loop is late by less than ``limit`` seconds."""

    def check() -> None:
        late = lag()
        if late >= limit:
            raise Unhealthy(f"the event loop is {late:.1f} s late: something blocks it")

    return check
