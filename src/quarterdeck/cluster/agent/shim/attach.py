"""The socket of a container for those who read along or write to it, and the frames spoken there.

A frame is a channel, a length (four bytes, big endian) and that many bytes: 0 input for the program, 1 and 2
its output, 4 the size of its terminal as two numbers, 5 the end of the input, 6 another program (see
``enter``) and 7 its exit code.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

SOCKET: Final = "attach.sock"
INPUT: Final = 0
OUTPUT: Final = {b"stdout": 1, b"stderr": 2}
RESIZE: Final = 4
END_OF_INPUT: Final = 5
ENTER: Final = 6
EXIT_CODE: Final = 7
_HEAD: Final = struct.Struct(">BI")
_UNREAD_LIMIT: Final = 4 * 1024 * 1024


def frame(channel: int, data: bytes) -> bytes:
    """One frame."""
    return _HEAD.pack(channel, len(data)) + data


def take_frames(buffer: bytearray) -> list[tuple[int, bytes]]:
    """The whole frames of a buffer, which keeps the rest."""
    found, place = [], 0
    while len(buffer) - place >= _HEAD.size:
        channel, size = _HEAD.unpack_from(buffer, place)
        if len(buffer) - place - _HEAD.size < size:
            break
        start = place + _HEAD.size
        found.append((channel, bytes(buffer[start : start + size])))
        place = start + size
    del buffer[:place]
    return found


class Client:
    """Somebody who is attached; one who does not read is dropped in the end: the container never waits."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection: Final = connection
        self.received: Final = bytearray()
        self.descriptors: list[int] = []
        """Sent with the last frames, and ours to close."""
        self.runner = 0
        """The process that runs a program for this client."""
        self._unsent = bytearray()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, data: bytes) -> bool:
        """Send, or keep for later; whether the client is still of use."""
        self._unsent += data
        return self.flush() and len(self._unsent) <= _UNREAD_LIMIT

    def flush(self) -> bool:
        """Send what was kept; whether the client is still there."""
        try:
            while self._unsent:
                del self._unsent[: self.connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def receive(self) -> list[tuple[int, bytes]] | None:
        """The frames that have come; None when the client is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.connection, 64 * 1024, 3)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self.descriptors += descriptors
        if not data:
            return None
        self.received.extend(data)
        return take_frames(self.received)
