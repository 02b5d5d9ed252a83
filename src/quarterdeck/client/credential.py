"""Credentials: who we are, kept fresh.

A credential gives the headers of the next request. ``refresh`` is called after a 401 and says whether
trying again makes sense. Files are read off the event loop; plugins run as child processes.
"""

import asyncio
import base64
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.client.clock import Clock, SystemClock
from quarterdeck.client.tls import TlsOptions
from quarterdeck.client.transport import Headers
from quarterdeck.errors import ConfigError

_TOKEN_LIFETIME: Final = 60.0
_EXPIRY_MARGIN: Final = 10.0
_EXEC_TIMEOUT: Final = 60.0
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Credential(Protocol):
    """Authenticates requests; one transport owns it."""

    async def headers(self) -> Headers:
        """Headers to add to the next request."""
        ...

    async def tls(self, options: TlsOptions) -> TlsOptions:
        """The TLS options with this credential's client certificate, if it has one."""
        ...

    async def refresh(self) -> bool:
        """The server said 401: forget what was cached; returns whether a new try makes sense."""
        ...

    async def aclose(self) -> None:
        """Release what the credential holds."""
        ...


class Anonymous:
    """No header: anonymous, or known by client certificate alone."""

    async def headers(self) -> Headers:
        """Nothing."""
        return ()

    async def tls(self, options: TlsOptions) -> TlsOptions:
        """Unchanged."""
        return options

    async def refresh(self) -> bool:
        """There is nothing to refresh."""
        return False

    async def aclose(self) -> None:
        """Nothing to release."""


class StaticToken(Anonymous):
    """A bearer token that never changes."""

    def __init__(self, token: str) -> None:
        self._headers: Headers = (("authorization", f"Bearer {token}"),)

    async def headers(self) -> Headers:
        """The bearer token."""
        return self._headers


class BasicAuth(Anonymous):
    """User name and password; old, but kubeconfig files still have it."""

    def __init__(self, username: str, password: str) -> None:
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._headers: Headers = (("authorization", f"Basic {pair}"),)

    async def headers(self) -> Headers:
        """The encoded pair."""
        return self._headers


class FileToken(Anonymous):
    """A bearer token in a file that somebody rotates: re-read at most once a minute, and after a 401."""

    def __init__(self, path: str, *, clock: Clock | None = None, lifetime: float = _TOKEN_LIFETIME) -> None:
        self._path = path
        self._clock = clock if clock is not None else SystemClock()
        self._lifetime = lifetime
        self._headers: Headers = ()
        self._read_at = float("-inf")

    async def headers(self) -> Headers:
        """The token as the file had it within the last minute; raises ``ConfigError`` if it never could."""
        if self._clock.monotonic() - self._read_at >= self._lifetime:
            await self._read()
        return self._headers

    async def refresh(self) -> bool:
        """Read the file again; worth a new try only if it holds another token."""
        before = self._headers
        await self._read()
        return self._headers != before

    async def _read(self) -> None:
        try:
            token = (await asyncio.to_thread(Path(self._path).read_text)).strip()
        except OSError as error:
            if not self._headers:
                raise ConfigError(f"cannot read the token file {self._path}: {error}") from error
            return  # a projected volume is being swapped: the old token is still good for a while
        if token:
            self._headers = (("authorization", f"Bearer {token}"),)
            self._read_at = self._clock.monotonic()
        elif not self._headers:
            raise ConfigError(f"the token file {self._path} is empty")


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class ExecPlugin:
    """Credentials from an external program (``client.authentication.k8s.io``).

    The program's answer is kept until shortly before it expires, or until the server refuses it. Calls
    that need it at the same time share one run.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        api_version: str = _EXEC_VERSIONS[0],
        cluster: Mapping[str, Any] | None = None,
        install_hint: str = "",
        interactive_mode: str = "IfAvailable",
        clock: Clock | None = None,
    ) -> None:
        if api_version not in _EXEC_VERSIONS:
            raise ConfigError(f"exec plugin {command}: invalid apiVersion {api_version!r}")
        self._command = command
        self._args = tuple(args)
        self._env = dict(env or {})
        self._api_version = api_version
        self._cluster = cluster
        self._install_hint = install_hint
        self._interactive_mode = interactive_mode
        self._clock = clock if clock is not None else SystemClock()
        self._lock = asyncio.Lock()  # one run at a time; held across the child process on purpose
        self._status: _ExecStatus | None = None
        self._expires = float("inf")

    async def headers(self) -> Headers:
        """The bearer token of the current credential, if it has one."""
        status = await self._current()
        return (("authorization", f"Bearer {status.token}"),) if status.token else ()

    async def tls(self, options: TlsOptions) -> TlsOptions:
        """The options with the plugin's client certificate, if it has one."""
        status = await self._current()
        if not status.client_certificate_data:
            return options
        return msgspec.structs.replace(
            options,
            cert_data=status.client_certificate_data,
            key_data=status.client_key_data,
            cert_file="",
            key_file="",
        )

    async def refresh(self) -> bool:
        """Forget the credential; the next request runs the plugin again."""
        self._status = None
        return True

    async def aclose(self) -> None:
        """Nothing outlives a run."""

    async def _current(self) -> _ExecStatus:
        if self._status is not None and self._clock.time() < self._expires - _EXPIRY_MARGIN:
            return self._status
        async with self._lock:
            if self._status is None or self._clock.time() >= self._expires - _EXPIRY_MARGIN:
                self._status = await self._run()
                self._expires = _expiry(self._status.expiration_timestamp, self._command)
        return self._status

    async def _run(self) -> _ExecStatus:
        interactive = self._interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self._interactive_mode == "Always" and not interactive:
            raise ConfigError(f"exec plugin {self._command} needs a terminal, standard input is none")
        info: dict[str, Any] = {
            "kind": "ExecCredential",
            "apiVersion": self._api_version,
            "spec": {"interactive": interactive},
        }
        if self._cluster is not None:
            info["spec"]["cluster"] = dict(self._cluster)
        out = await self._spawn(
            {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
            interactive,
        )
        try:
            answer = msgspec.json.decode(out, type=_ExecCredential)
        except UNREADABLE as error:
            raise ConfigError(
                f"exec plugin {self._command} did not print an ExecCredential: {error}"
            ) from error
        if answer.api_version != self._api_version or answer.kind != "ExecCredential":
            raise ConfigError(
                f"exec plugin {self._command} printed {answer.api_version} {answer.kind}, "
                f"configured is {self._api_version} ExecCredential"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise ConfigError(f"exec plugin {self._command} returned neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise ConfigError(f"exec plugin {self._command} returned half a certificate and key pair")
        return status

    async def _spawn(self, env: Mapping[str, str], interactive: bool) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._args,
                env=env,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n\n{self._install_hint}" if self._install_hint else ""
            raise ConfigError(f"cannot run the exec plugin {self._command}: {error}{hint}") from error
        try:
            async with asyncio.timeout(_EXEC_TIMEOUT):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(
                f"exec plugin {self._command} did not finish within {_EXEC_TIMEOUT:g}s"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = (err or b"").decode(errors="replace").strip()
            raise ConfigError(f"exec plugin {self._command} failed with code {process.returncode}: {said}")
        return out


def _expiry(text: str, command: str) -> float:
    if not text:
        return float("inf")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise ConfigError(f"exec plugin {command} returned a bad expirationTimestamp {text!r}") from error
