"""A client that tells what was written through it.

``recording_client`` gives a client that behaves like the one it is made from, hooks and layers included,
and reports every successful write. Before a write it asks whether writing is still allowed: a process
that has lost its lease must not act on what it decided while it led.

``WriteLog`` collects verbs and resources, for comparing what a controller does with what it declares.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.client import Call, Client, Response
from quarterdeck.client.wrapper import writing_through
from quarterdeck.errors import QuarterdeckError


class NotLeading(QuarterdeckError):
    """The write was not sent: the lease may belong to somebody else by now."""


class WriteObserver(Protocol):
    """The observer of writes."""

    def written(self, call: Call, response: Response) -> None:
        """A write succeeded."""
        ...


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class WrittenHead(msgspec.Struct, gc=False):
    """The head of a write's answer; ``kind`` is ``Status`` where there is no object."""

    kind: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_head: Final = msgspec.json.Decoder(WrittenHead)


def head_of(response: Response) -> WrittenHead:
    """The head of an answer; an empty one if it is no object."""
    try:
        return _head.decode(response.body)
    except UNREADABLE:
        return WrittenHead()


def recording_client(
    client: Client, observer: WriteObserver, *, may_write: Callable[[], bool] | None = None
) -> Client:
    """A client like ``client`` that reports its writes and refuses them when ``may_write()`` says so."""

    async def write(call: Call) -> Response:
        if may_write is not None and not may_write():
            raise NotLeading(
                f"not sending {call.verb} {call.gvr.resource} {call.object_name}: not the leader"
            )
        response = await client.send(call)
        observer.written(call, response)
        return response

    return writing_through(client, write)


class Permission(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource, as RBAC names it."""

    group: str
    resource: str
    """With the subresource: ``pods/status``."""
    verb: str

    @classmethod
    def of(cls, call: Call) -> "Permission":
        """What a call needs."""
        verb = "patch" if call.verb == "apply" else call.verb
        resource = f"{call.gvr.resource}/{call.subresource}" if call.subresource else call.gvr.resource
        return cls(call.gvr.group, resource, verb)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


class WriteLog:
    """The permissions that writes have used so far."""

    def __init__(self) -> None:
        self.used: set[Permission] = set()

    def written(self, call: Call, response: Response) -> None:
        """Remember the verb and the resource."""
        self.used.add(Permission.of(call))
