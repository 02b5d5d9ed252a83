"""A whole cluster: the embedded server and its controllers, in two processes or in one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .controllers.assembly import make_program
from .error import CommandError
from .instance.instance import PRIVATE_PREFIX
from .localnode.settings import held_directory

if TYPE_CHECKING:
    from quarterdeck.apiserver import ApiServer, ServerOptions
    from quarterdeck.cluster.node.profile import NodeSettings
    from quarterdeck.runtime.operator import Operator

    from .localnode.link import AgentProcess
    from .localnode.settings import LocalNode


_SHORT_STOP = 0.5
"""Seconds for an orderly stop of controllers where nothing is left to be put in order."""
_LONGEST_SOCKET = 103
"""Bytes in the path of a socket, on the system that allows least."""


def private_socket(directory: Path) -> Path:
    """Where the controllers find the server; raises CommandError if the system takes no such path."""
    socket = directory / "apiserver.sock"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        raise CommandError(
            f"the folder for temporary files is too deep for a socket, which may have {_LONGEST_SOCKET}"
            f" characters: {directory}; set TMPDIR to a shorter one"
        )
    return socket


@asynccontextmanager
async def running_cluster(
    options: ServerOptions,
    operators: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    stopping: asyncio.Event,
    *,
    nodes: NodeSettings,
    controllers: str | None = None,
    local_node: LocalNode | None = None,
    log_level: str = "WARNING",
    is_kept: bool = True,
) -> AsyncIterator[ApiServer]:
    """A running cluster, ready for use unless `stopping` was set before it was; ``is_kept`` if its state, or
    anything that runs in it, matters to anybody afterwards.

    The controllers run in a process of their own, so that no request waits for a reconcile; it is started
    again when it ends. Raises CommandError for what the user can mend.
    """
    from .controllers.link import ControllerProcess
    from .controllers.message import Assignment

    async with _server(options) as server:
        with TemporaryDirectory(prefix=PRIVATE_PREFIX) as directory:  # for this user alone
            socket = private_socket(Path(directory))
            await server.listen_privately(socket)
            server.nodes.folder = Path(directory, "nodes")
            assignment = Assignment(
                socket=str(socket),
                root_ca=server.credentials.authority.certificate_pem,
                authority=server.credentials.authority.to_pem(),
                service_account_key=server.credentials.service_account_key.to_pem(),
                operators=tuple(operators),
                settings=settings,
                nodes=nodes,
                controllers=controllers,
                log_level=log_level,
            )
            patience = {} if is_kept else {"stop_seconds": _SHORT_STOP}
            if stopping.is_set():
                yield server
                return
            async with ControllerProcess(assignment, **patience) as process:
                server.add_check("operators", lambda: not process.not_ready)
                server.add_metrics(process.metrics)
                await first_of(process.wait_ready(), stopping.wait())
                async with _node(server, local_node, Path(directory), log_level) as node:
                    if node is not None:
                        await first_of(node.wait_ready(), stopping.wait())
                    yield server


@asynccontextmanager
async def _node(
    server: ApiServer, wanted: LocalNode | None, private: Path, log_level: str
) -> AsyncIterator[AgentProcess | None]:
    """This machine as a node of the cluster, if that is wanted; ``private`` is the user's alone."""
    if wanted is None:
        yield None
        return
    from .localnode.link import AgentProcess
    from .localnode.start import node_assignment

    data = server.options.data_dir
    with held_directory(data / "nodes" / wanted.name if data is not None else None) as directory:
        assignment = await node_assignment(server, wanted, private, directory, log_level)
        async with AgentProcess(assignment) as process:
            server.add_check("local-node", lambda: process.is_ready)
            yield process


@asynccontextmanager
async def cluster_in_one_process(
    options: ServerOptions,
    operators: Sequence[Operator],
    settings: Mapping[str, Mapping[str, Any]],
    stopping: asyncio.Event,
    *,
    nodes: NodeSettings | None = None,
) -> AsyncIterator[ApiServer]:
    """The same in this process, for operators that need not be installed: less memory, more waiting."""
    from quarterdeck.client import Client, InProcessTransport
    from quarterdeck.cluster.node.profile import NodeSettings
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.runtime.loop.taskerror import unwrapped

    async with _server(options) as server:
        try:
            program = make_program(
                lambda **options: Client.over(InProcessTransport(server.local()), **options),
                operators,
                settings,
                nodes=nodes if nodes is not None else NodeSettings(),
                root_ca=server.credentials.authority.certificate_pem,
                authority=server.credentials.authority.to_pem(),
                sign_token=server.sign_token,
            )

            async def metrics() -> bytes:
                return program.metrics.registry.expose()

            server.add_check("operators", lambda: not program.not_ready)
            server.add_metrics(metrics)
            with unwrapped():
                async with asyncio.TaskGroup() as group:
                    serving = group.create_task(program.serve())
                    await first_of(program.wait_ready(), stopping.wait())
                    try:
                        yield server
                    finally:
                        program.manager.request_stop()
                        await asyncio.wait([serving])
        except QuarterdeckError as error:
            raise CommandError(str(error)) from error


@asynccontextmanager
async def _server(options: ServerOptions) -> AsyncIterator[ApiServer]:
    from quarterdeck.apiserver import ApiServer, StorageError

    server = ApiServer(replace(options, usage=True))
    try:
        await server.start()
    except (StorageError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    try:
        yield server
    finally:
        await server.stop()


async def first_of(*steps: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first of several; the others are given up. Raises what the first raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
