"""The operator under test: a process with a kubeconfig, or a manager in this process.

Either lives more than once: ``start`` begins a life over a link, ``strike`` ends it as SIGKILL does.
"""

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, Protocol, TypeAlias

from quarterdeck.api import DynamicObject
from quarterdeck.apiserver.auth import write_kubeconfig
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment
from quarterdeck.runtime.rbac import roles
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer
from quarterdeck.testing.cluster import TestCluster
from quarterdeck.testing.gateway import Gateway
from quarterdeck.testing.link import Link

OPERATOR: Final = "system:serviceaccount:default:operator"
"""Who the operator is, unless somebody says otherwise."""
_RBAC: Final = "rbac.authorization.k8s.io"
_ROLE: Final = "operator-under-torture"
_NOT_SERVED: Final = -1
_PORT: Final = "{port}"
_TAIL: Final = 4000
"""Characters of the output that are kept for a finding."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG


class Subject(Protocol):
    """What is done to an operator."""

    async def start(self, link: Link) -> None:
        """Begin a life whose requests go over a link."""
        ...

    def strike(self) -> None:
        """End the life at once; nothing more gets out."""
        ...

    async def reap(self) -> None:
        """Wait until the struck life is over."""
        ...

    def pause(self) -> None:
        """Let it stand still."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the life is over, by itself or struck."""
        ...

    @property
    def log(self) -> str:
        """The end of what it has told, of all lives."""
        ...


MakeSubject: TypeAlias = Callable[[TestCluster], AbstractAsyncContextManager[Subject]]
"""Gives the operator for one cluster; no life has begun."""


class _ManagedSubject:
    def __init__(self, make: Callable[[Link], Manager]) -> None:
        self._make: Final = make
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._log = ""

    async def start(self, link: Link) -> None:
        self._link = link
        self._task = asyncio.create_task(self._serve(self._make(link)), name="operator under torture")

    async def _serve(self, manager: Manager) -> None:
        try:
            async with manager:
                await manager.serve()
        except Exception as error:  # noqa: BLE001  whatever ends it is what is looked for
            self._log += "".join(traceback.format_exception(error))

    def strike(self) -> None:
        if self._link is not None and self._task is not None:
            self._link.cut()
            self._task.cancel()

    async def reap(self) -> None:
        if self._task is not None:
            with suppress(asyncio.CancelledError, QuarterdeckError):
                await self._task

    def pause(self) -> None:
        if self._link is not None:
            self._link.hold()

    def resume(self) -> None:
        if self._link is not None:
            self._link.release()

    @property
    def has_ended(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def log(self) -> str:
        return self._log[-_TAIL:]


def manager_subject(make: Callable[[TestCluster, Link], Manager]) -> MakeSubject:
    """An operator on this runtime, in this process; ``make`` gives a manager for each life."""

    @asynccontextmanager
    async def subject(cluster: TestCluster) -> AsyncIterator[Subject]:
        made = _ManagedSubject(lambda link: make(cluster, link))
        try:
            yield made
        finally:
            made.strike()
            await made.reap()

    return subject


def operator_subject(
    *operators: Operator,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    is_embedded: bool = False,
) -> MakeSubject:
    """Operators as ``quarterdeck run`` has them, in one manager without webhooks.

    They have the roles that are derived from what they declare, and no others: use it in a ``Scene`` with
    ``is_admin=False``. With ``is_embedded`` they simulate machines, as on ``quarterdeck up``.
    """

    def make(cluster: TestCluster, link: Link) -> Manager:
        manager = cluster.manager(link=link, webhooks=WebhookServer(WebhookOptions(port=_NOT_SERVED)))
        for each in operators:
            chosen = (settings or {}).get(each.name, {})
            environment = OperatorEnvironment(name=each.name, settings=chosen, is_embedded=is_embedded)
            manager.add_rules(*each.setup(manager, environment).rules)
        return manager

    inner = manager_subject(make)

    @asynccontextmanager
    async def subject(cluster: TestCluster) -> AsyncIterator[Subject]:
        for role in roles(_ROLE, make(cluster, cluster.links[0]).rules()):
            await cluster.client.create(role)
            await cluster.client.create(DynamicObject(binding_of(role.to_dict(), OPERATOR)))
        async with inner(cluster) as made:
            yield made

    return subject


def binding_of(role: Mapping[str, Any], user: str) -> dict[str, Any]:
    """What gives a role to a user."""
    metadata = {**role["metadata"], "name": _ROLE}  # with the role's namespace, if it has one
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }


class _CommandSubject:
    def __init__(self, command: Sequence[str], gateway: Gateway, folder: Path) -> None:
        self._command: Final = command
        self._gateway: Final = gateway
        self._folder: Final = folder
        self._output: Final = folder / "output"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, link: Link) -> None:
        self._gateway.link = link
        kubeconfig = self._folder / "kubeconfig"
        if not kubeconfig.exists():
            await asyncio.to_thread(self._write_credentials, kubeconfig)
        host, port = self._gateway.address
        variables = {
            "KUBECONFIG": str(kubeconfig),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
        }
        words = [each.replace(_PORT, str(_free_port())) for each in self._command]
        with self._output.open("ab") as output:
            self._process = await self._spawn(words, os.environ | variables, output)

    async def _spawn(
        self, words: Sequence[str], variables: dict[str, str], output: IO[bytes]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *words,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # one signal reaches all that it starts
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )

    def _write_credentials(self, kubeconfig: Path) -> None:
        write_kubeconfig(kubeconfig, self._gateway.kubeconfig())
        account = self._folder / "serviceaccount"
        account.mkdir()
        (account / "token").write_text(self._gateway.token)
        (account / "ca.crt").write_bytes(self._gateway.authority)
        (account / "namespace").write_text("default")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def strike(self) -> None:
        self._gateway.link.cut()
        self._signal(signal.SIGKILL)

    async def reap(self) -> None:
        if self._process is not None:
            await self._process.wait()
            with suppress(ProcessLookupError):  # what it has started and left behind
                os.killpg(self._process.pid, signal.SIGKILL)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    @property
    def log(self) -> str:
        if not self._output.exists():
            return ""
        return self._output.read_bytes()[-_TAIL:].decode(errors="replace")


def command_subject(command: Sequence[str], *, in_cluster: bool = False) -> MakeSubject:
    """Any program, with ``KUBECONFIG`` in its environment; ``{port}`` in its words becomes a free port.

    ``in_cluster``: it finds a service account's files where a pod has them, in a mount namespace of its own
    (``unshare`` must be there and allowed).
    """

    @asynccontextmanager
    async def subject(cluster: TestCluster) -> AsyncIterator[Subject]:
        gateway = Gateway(cluster, cluster.links[0])
        async with gateway:
            with TemporaryDirectory(prefix="quarterdeck-torture-") as folder:
                words = _in_pod(command, Path(folder)) if in_cluster else command
                made = _CommandSubject(words, gateway, Path(folder))
                try:
                    yield made
                finally:
                    made.strike()
                    await made.reap()

    return subject


def _in_pod(command: Sequence[str], folder: Path) -> list[str]:
    script = (
        f'mount -t tmpfs none /var/run && mkdir -p {_ACCOUNT} && cp "$0"/* {_ACCOUNT}'
        ' && unset KUBECONFIG && exec "$@"'
    )
    return [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        script,
        str(folder / "serviceaccount"),
        *command,
    ]


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def _die_with_parent() -> None:
    """In the new process: whatever happens to us, it is not left behind."""
    import ctypes

    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
