"""Where the server listens when its port is in use."""

from __future__ import annotations

import errno
import socket

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions

pytestmark = pytest.mark.real_time


async def test_a_usual_port_gives_way_and_one_that_was_asked_for_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with ApiServer(ServerOptions(port=port, takes_any_port=True)) as server:
            assert server.port not in (0, port)
        with pytest.raises(OSError, match="address already in use") as refused:
            await ApiServer(ServerOptions(port=port)).start()
        assert refused.value.errno == errno.EADDRINUSE
