"""Health checks: named functions that say what is wrong, and how they are shown.

The text is that of Kubernetes components: ``ok`` when all is well, else (or with ``?verbose``) one line per
check. Reasons are withheld from plain answers, because probes are open to everybody who reaches the port; who
asks with ``?verbose`` gets them.

A check fails by raising, or by returning the reason. Those every manager comes with
(``quarterdeck.runtime.manager.check``) are added when the server is added to a manager.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Final, TypeAlias
from urllib.parse import parse_qsl

from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.supervision import contained, isolated
from quarterdeck.wire.http import Request, Response, text

CHECK_TIMEOUT: Final = 10.0
_log: Final = get_logger(__name__)

Check: TypeAlias = Callable[[], Awaitable[str | None] | str | None]
"""Returns the reason, or raises with it, when something is wrong."""


def ping() -> None:
    """The check that always passes: whoever hears the answer knows that the process is there."""


class HealthChecks:
    """The checks of one endpoint (``healthz`` or ``readyz``)."""

    def __init__(self, name: str) -> None:
        """``name`` is the path without its slash."""
        self.name: Final = name
        self._checks: Final[dict[str, Check]] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; raises ``ValueError`` if another has the name."""
        if self._checks.get(name, check) != check:
            raise ValueError(f'health check "{name}" exists already')
        self._checks[name] = check

    def add_all(self, checks: Mapping[str, Check]) -> None:
        """Add several checks; raises ``ValueError`` if another has one of the names."""
        for name, check in checks.items():
            self.add(name, check)

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
        query = parse_qsl(request.raw_query, keep_blank_values=True)
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
            reason = self._checks.get(name, ping)()
            if isawaitable(reason):
                async with asyncio.timeout(CHECK_TIMEOUT):
                    reason = await isolated(reason)
        except TimeoutError:
            return f"no answer within {CHECK_TIMEOUT:.0f} s"
        except BaseException as raised:  # noqa: BLE001  supervision point: a broken check is a failed check
            error = contained(raised)
            return str(error) or type(error).__name__
        return reason or ""
