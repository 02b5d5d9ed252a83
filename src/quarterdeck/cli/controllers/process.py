"""The controllers' process: ``python -m quarterdeck.cli.controllers.process``, started by `link`.

It reads its assignment from standard input and reports on standard output; its log is standard error. It ends
when told to, or when its standard input does: then the server has gone, and nothing is left to control.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from .assembly import make_program
from .message import Assignment, Metrics, Order, Refused, State, decode_order, encode

if TYPE_CHECKING:
    from quarterdeck.runtime.operator.program import Program

_LOOK_SECONDS = 0.02
_LOOK_SECONDS_WHEN_READY = 0.5
_ASSIGNMENT_LIMIT = 64 * 1024 * 1024
_SERVER_GONE = 3


def main() -> int:
    import uvloop

    from quarterdeck.cli.collector import relax_collector
    from quarterdeck.cli.restart import leave_signals_to_server

    relax_collector()
    leave_signals_to_server()
    return uvloop.run(_run())


async def _run() -> int:
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.runtime.log import configure
    from quarterdeck.runtime.loop.taskerror import unwrapped

    reader, writer = await _pipes()
    line = await reader.readline()
    if not line:
        return _SERVER_GONE
    assignment = msgspec.json.decode(line, type=Assignment)
    configure(level=assignment.log_level)
    try:
        program = _program(assignment)
        with unwrapped():
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(program.serve())
                others = [
                    group.create_task(_obey(reader, writer, program)),
                    group.create_task(_report_state(writer, program)),
                ]
                await asyncio.wait([serving])
                for task in others:
                    task.cancel()
    except QuarterdeckError as error:
        writer.write(encode(Refused(str(error))))
        with suppress(ConnectionError):
            await writer.drain()
        return 1
    finally:
        writer.close()
    return 0


def _program(assignment: Assignment) -> Program:
    from quarterdeck.apiserver.auth import ServiceAccountTokens
    from quarterdeck.apiserver.auth.jwt import SigningKey
    from quarterdeck.client import Client, HttpTransport
    from quarterdeck.cluster.choice import ControllerChoice
    from quarterdeck.runtime.operator import installed_operators

    installed = installed_operators()
    return make_program(
        lambda **options: Client.over(
            HttpTransport("http://localhost", socket_path=assignment.socket), **options
        ),
        [installed[name] for name in assignment.operators],
        assignment.settings,
        nodes=assignment.nodes,
        choice=None if assignment.controllers is None else ControllerChoice.parse(assignment.controllers),
        root_ca=assignment.root_ca,
        authority=assignment.authority,
        sign_token=ServiceAccountTokens(SigningKey.from_pem(assignment.service_account_key)).issue_legacy,
    )


async def _pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_ASSIGNMENT_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what somebody's operator prints is no report
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, reports)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def _obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, program: Program) -> None:
    while line := await reader.readline():
        if isinstance(decode_order(line), Order):
            program.manager.request_stop()
        else:
            writer.write(encode(Metrics(program.metrics.registry.expose())))
    # Whoever asked for anything is gone, and every request would only fail.
    os._exit(_SERVER_GONE)


async def _report_state(writer: asyncio.StreamWriter, program: Program) -> None:
    told: str | None = None
    while True:
        reason = program.not_ready
        if reason != told:
            told = reason
            writer.write(encode(State(reason)))
        await asyncio.sleep(_LOOK_SECONDS if reason else _LOOK_SECONDS_WHEN_READY)


if __name__ == "__main__":
    sys.exit(main())
