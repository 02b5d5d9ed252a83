"""Clients with habits: dry-run, field owner, validation, namespace, interception.

Each function takes a client and gives a copy with one more habit; they combine in any order and share
the connection::

    client = field_owner(namespaced(client, "shop"), "shop-operator")

``intercept`` is the test hook: replace or fail any verb, see what was sent.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import msgspec

from quarterdeck.client.call import Call, Interceptor, Proceed, ProceedStream, StreamInterceptor, Verb
from quarterdeck.client.client import Client
from quarterdeck.client.option import FieldValidation
from quarterdeck.client.transport import Response, Stream

_READS: Final[tuple[Verb, ...]] = ("get", "list")
_WRITES: Final[tuple[Verb, ...]] = ("create", "update", "patch", "apply", "delete", "deletecollection")
_OWNED: Final = frozenset({"create", "update", "patch", "apply"})


def dry_run(client: Client) -> Client:
    """Every write is validated and admitted, none is stored."""

    def layer(call: Call) -> Call:
        return call.with_query("dryRun", "All") if call.is_write and not call.has_query("dryRun") else call

    return client.wrapped(layer)


def field_owner(client: Client, manager: str) -> Client:
    """``manager`` owns the fields of every write that does not name another."""

    def layer(call: Call) -> Call:
        needed = call.verb in _OWNED and not call.has_query("fieldManager")
        return call.with_query("fieldManager", manager) if needed else call

    return client.wrapped(layer)


def field_validation(client: Client, mode: FieldValidation) -> Client:
    """Every write that does not say otherwise treats unknown fields as ``mode`` says."""

    def layer(call: Call) -> Call:
        needed = call.verb in _OWNED and not call.has_query("fieldValidation")
        return call.with_query("fieldValidation", mode) if needed else call

    return client.wrapped(layer)


def namespaced(client: Client, namespace: str) -> Client:
    """Everything happens in one namespace; an object of another is refused with ``ValueError``.

    Cluster-scoped kinds are not affected.
    """

    def layer(call: Call) -> Call:
        if not call.is_namespaced or call.namespace == namespace:
            return call
        if call.namespace:
            raise ValueError(
                f"namespace {call.namespace} of the object {call.object_name} "
                f"does not match the namespace {namespace} on the client"
            )
        return msgspec.structs.replace(call, namespace=namespace)

    return client.wrapped(layer)


def writing_through(client: Client, write: Callable[[Call], Awaitable[Response]]) -> Client:
    """Every write goes to ``write``, which sends it by ``client`` or refuses it."""

    async def read(call: Call, proceed: Proceed) -> Response:
        return await client.send(call)

    async def changed(call: Call, proceed: Proceed) -> Response:
        return await write(call)

    async def stream(call: Call, proceed: ProceedStream) -> Stream:
        return await client.open(call)

    reads: dict[Verb, Interceptor] = dict.fromkeys(_READS, read)
    writes: dict[Verb, Interceptor] = dict.fromkeys(_WRITES, changed)
    return Client(
        client.rest,
        scheme=client.scheme,
        mapper=client.mapper,
        interceptors=reads | writes,
        stream_interceptor=stream,
    )


def intercept(
    client: Client,
    *,
    get: Interceptor | None = None,
    list: Interceptor | None = None,
    create: Interceptor | None = None,
    update: Interceptor | None = None,
    patch: Interceptor | None = None,
    apply: Interceptor | None = None,
    delete: Interceptor | None = None,
    delete_all_of: Interceptor | None = None,
    watch: StreamInterceptor | None = None,
) -> Client:
    """Put a hook before verbs: ``async def hook(call, proceed) -> Response``.

    A hook may raise, answer by itself, or ``return await proceed(call)``. Subresources come with the
    verb of the object; ``call.subresource`` tells them apart.
    """
    hooks: Mapping[str, Interceptor | None] = {
        "get": get,
        "list": list,
        "create": create,
        "update": update,
        "patch": patch,
        "apply": apply,
        "delete": delete,
        "deletecollection": delete_all_of,
    }
    chosen = {cast("Verb", verb): hook for verb, hook in hooks.items() if hook is not None}
    return client.wrapped(interceptors=chosen, stream_interceptor=watch)


def raise_once(make: Callable[[], BaseException] | BaseException) -> Interceptor:
    """A hook that fails the first call and lets the others pass: ``raise_once(Conflict)``."""
    pending: list[Any] = [make]

    async def hook(call: Call, proceed: Proceed) -> Response:
        if pending:
            error = pending.pop()
            raise error if isinstance(error, BaseException) else error()
        return await proceed(call)

    return hook
