"""Handlers of admission requests: validate, default, or anything.

A ``Validator`` and a ``Defaulter`` are given functions of a kind; an ``AdmissionHandler`` gets the bare
request; a ``Chain`` runs several handlers at one path. All are values that say where they are served and
how they are registered, and do nothing until a ``WebhookServer`` has them::

    def check(admission: Admission, group: PodGroup) -> None:
        if len(group.spec.sub_groups) > 64:
            raise Denied("at most 64 subgroups")

    server.add(Validator(PodGroup, check))

Functions may be plain or ``async``. Plain ones run on the event loop and must not block. A kind is a class,
or a ``GroupVersionKind``: then functions get plain dictionaries.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, Generic, TypeAlias, TypeVar, Unpack, cast, overload

from quarterdeck.api import GroupVersionKind, Resource, encode
from quarterdeck.api.codec import decode_json
from quarterdeck.errors import BadRequest, ConfigError
from quarterdeck.runtime.webhook.admission import OPERATIONS, Admission
from quarterdeck.runtime.webhook.patch import carry_over
from quarterdeck.runtime.webhook.path import check_path, webhook_path
from quarterdeck.runtime.webhook.registration import OPERATIONS as OPERATIONS_BY_DEFAULT
from quarterdeck.runtime.webhook.registration import SettingsOptions, WebhookSettings, make_settings

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
Document: TypeAlias = dict[str, Any]
Kind: TypeAlias = type[Resource] | GroupVersionKind

Check: TypeAlias = Callable[[Admission, T], Awaitable[None] | None]
"""Looks at an object; raises to deny."""
CheckUpdate: TypeAlias = Callable[[Admission, T, T], Awaitable[None] | None]
"""Looks at an object before and after."""
ChangeFunction: TypeAlias = Callable[[Admission, T], Awaitable[T] | T]
"""Returns the object as it should be: a changed copy, or the very same."""
Handle: TypeAlias = Callable[[Admission], Awaitable[None] | None]
"""Looks at a bare request."""


class AdmissionWebhook(ABC):
    """What every admission handler is to the server."""

    def __init__(self, path: str, settings: WebhookSettings, kind: Kind | None, *, is_mutating: bool) -> None:
        self.path: Final = check_path(path)
        self.settings: Final = settings
        self.is_mutating: Final = is_mutating
        gvk = kind if isinstance(kind, GroupVersionKind) or kind is None else kind.type_info.gvk
        self.gvk: Final = gvk

    @abstractmethod
    def review(self, admission: Admission) -> Awaitable[None] | None:
        """Judge a request: return to allow, raise to deny, set ``admission.patched`` to change."""


def check_operation(admission: Admission) -> None:
    """Refuse operations no API server sends (400)."""
    if admission.operation not in OPERATIONS:
        raise BadRequest(f'unknown operation "{admission.operation}"')


class Validator(AdmissionWebhook, Generic[T]):
    """Checks objects; ``checks`` run in order, the first denial ends it.

    ``checks`` see the object of a create and the new object of an update. ``create``, ``update`` and
    ``delete`` see only their operation (``update`` gets old and new, ``delete`` the object that goes) and
    run after ``checks``. The webhook is registered for the operations that have a function. CONNECT is
    allowed, and so are updates of objects that are being deleted (``sees_deleting`` judges them, too).
    """

    @overload
    def __init__(
        self: "Validator[R]",
        kind: type[R],
        *checks: Check[R],
        create: Check[R] | None = ...,
        update: CheckUpdate[R] | None = ...,
        delete: Check[R] | None = ...,
        path: str = ...,
        **options: Unpack[SettingsOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Validator[Document]",
        kind: GroupVersionKind,
        *checks: Check[Document],
        create: Check[Document] | None = ...,
        update: CheckUpdate[Document] | None = ...,
        delete: Check[Document] | None = ...,
        path: str = ...,
        **options: Unpack[SettingsOptions],
    ) -> None: ...
    def __init__(
        self,
        kind: Any,
        *checks: Check[Any],
        create: Check[Any] | None = None,
        update: CheckUpdate[Any] | None = None,
        delete: Check[Any] | None = None,
        path: str = "",
        **options: Unpack[SettingsOptions],
    ) -> None:
        """``path`` defaults to ``/validate-<group>-<version>-<kind>``; options: ``WebhookSettings``."""
        gvk = kind if isinstance(kind, GroupVersionKind) else kind.type_info.gvk
        operations = {"CREATE": checks or create, "UPDATE": checks or update, "DELETE": delete}
        wanted = tuple(operation for operation, function in operations.items() if function)
        super().__init__(
            path or webhook_path("validate", gvk),
            make_settings(kind, "v", options, wanted or OPERATIONS_BY_DEFAULT),
            kind,
            is_mutating=False,
        )
        self._read: Final[RequestObjects[Any]] = RequestObjects(kind)
        self._create: Final = (*checks, create) if create is not None else checks
        self._checks: Final = checks
        self._update: Final = update
        self._delete: Final = delete

    def review(self, admission: Admission) -> Awaitable[None] | None:
        operation = admission.operation
        if operation == "CREATE":
            return _each(self._create, admission, self._read.new(admission))
        if operation == "UPDATE":
            new = self._read.new(admission)
            if self._update is None:
                return _each(self._checks, admission, new)
            return _each_then(self._checks, self._update, admission, self._read.old(admission), new)
        if operation == "DELETE":
            return self._delete(admission, self._read.old(admission)) if self._delete is not None else None
        check_operation(admission)
        return None


class Defaulter(AdmissionWebhook, Generic[T]):
    """Changes objects; each of ``changes`` gets what the one before returned.

    They return the object as it should be (``evolve`` and ``draft`` make changed copies); functions of
    plain dictionaries may change theirs in place and return nothing. An object that comes out equal is
    answered without a patch. DELETE and CONNECT are allowed without asking.
    """

    @overload
    def __init__(
        self: "Defaulter[R]",
        kind: type[R],
        *changes: ChangeFunction[R],
        path: str = ...,
        **options: Unpack[SettingsOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Defaulter[Document]",
        kind: GroupVersionKind,
        *changes: Callable[[Admission, Document], Awaitable[Document | None] | Document | None],
        path: str = ...,
        **options: Unpack[SettingsOptions],
    ) -> None: ...
    def __init__(
        self, kind: Any, *changes: ChangeFunction[Any], path: str = "", **options: Unpack[SettingsOptions]
    ) -> None:
        """``path`` defaults to ``/mutate-<group>-<version>-<kind>``; options: ``WebhookSettings``."""
        gvk = kind if isinstance(kind, GroupVersionKind) else kind.type_info.gvk
        super().__init__(
            path or webhook_path("mutate", gvk), make_settings(kind, "m", options), kind, is_mutating=True
        )
        self._read: Final[RequestObjects[Any]] = RequestObjects(kind)
        self._changes: Final = changes

    def review(self, admission: Admission) -> Awaitable[None] | None:
        if admission.operation not in ("CREATE", "UPDATE"):
            check_operation(admission)
            return None
        before = after = self._read.new(admission)
        if isinstance(before, dict):
            after = decode_json(admission.raw_object)
        for place, change in enumerate(self._changes):
            result = change(admission, after)
            if isawaitable(result):
                return self._go_on(admission, before, after, result, self._changes[place + 1 :])
            after = _changed(result, after)
        self._settle(admission, before, after)
        return None

    async def _go_on(
        self,
        admission: Admission,
        before: Any,
        after: Any,
        pending: Awaitable[Any],
        rest: tuple[ChangeFunction[Any], ...],
    ) -> None:
        after = _changed(await pending, after)
        for change in rest:
            result = change(admission, after)
            after = _changed(await result if isawaitable(result) else result, after)
        self._settle(admission, before, after)

    def _settle(self, admission: Admission, before: Any, after: Any) -> None:
        if after is before or after == before:
            return
        if isinstance(before, dict):
            admission.patched = encode(after)
            return
        received = decode_json(admission.raw_object)
        wanted = carry_over(received, decode_json(encode(before)), decode_json(encode(after)))
        admission.patched = encode(wanted)


def _changed(result: Any, before: Any) -> Any:
    if result is None:
        if isinstance(before, dict):
            return before
        raise TypeError("a defaulting function must return the object")
    if type(result) is not type(before):
        raise TypeError(
            f"a defaulting function of {type(before).__name__} returned a {type(result).__name__}"
        )
    return result


class AdmissionHandler(AdmissionWebhook):
    """Any function of a bare request; it decodes what it needs and may set ``admission.patched``."""

    def __init__(
        self, path: str, handle: Handle, *, is_mutating: bool = False, **options: Unpack[SettingsOptions]
    ) -> None:
        """``name`` and ``rules`` have no default here; without them no configuration is generated."""
        super().__init__(path, make_settings(None, "", options), None, is_mutating=is_mutating)
        self._handle: Final = handle

    def review(self, admission: Admission) -> Awaitable[None] | None:
        check_operation(admission)
        return self._handle(admission)


class Chain(AdmissionWebhook):
    """Several handlers at one path, in order; the first denial ends it.

    Each sees the object as the ones before left it, and the API server gets one patch for all of them.
    Path and registration are those of the first unless given.
    """

    def __init__(
        self, *handlers: AdmissionWebhook, path: str = "", **options: Unpack[SettingsOptions]
    ) -> None:
        if not handlers:
            raise ConfigError("a chain needs handlers")
        first = handlers[0]
        settings = make_settings(None, "", options) if options else first.settings
        mutating = any(handler.is_mutating for handler in handlers)
        super().__init__(path or first.path, settings, first.gvk, is_mutating=mutating)
        self._handlers: Final = handlers

    async def review(self, admission: Admission) -> None:
        for handler in self._handlers:
            step = admission.continued()
            try:
                pending = handler.review(step)
                if pending is not None:
                    await pending
            finally:
                admission.absorb(step)


class RequestObjects(Generic[T]):
    """How the objects of a request are read: as a class, or as plain dictionaries."""

    __slots__ = ("_kind",)

    def __init__(self, kind: Kind) -> None:
        self._kind: Final = kind

    def new(self, admission: Admission) -> T:
        """The object."""
        kind = self._kind
        return cast("T", admission.document() if isinstance(kind, GroupVersionKind) else admission.read(kind))

    def old(self, admission: Admission) -> T:
        """The object before."""
        kind = self._kind
        if isinstance(kind, GroupVersionKind):
            return cast("T", admission.old_document())
        return cast("T", admission.read_old(kind))


def _each(checks: tuple[Check[T], ...], admission: Admission, obj: T) -> Awaitable[None] | None:
    """Run plain checks at once; the first that must wait turns the rest into a coroutine."""
    for place, check in enumerate(checks):
        pending = check(admission, obj)
        if pending is not None:
            return _await_each(pending, checks[place + 1 :], admission, obj)
    return None


async def _await_each(
    pending: Awaitable[None], checks: tuple[Check[T], ...], admission: Admission, obj: T
) -> None:
    await pending
    for check in checks:
        more = check(admission, obj)
        if more is not None:
            await more


def _each_then(
    checks: tuple[Check[T], ...], update: CheckUpdate[T], admission: Admission, old: T, new: T
) -> Awaitable[None] | None:
    pending = _each(checks, admission, new)
    if pending is None:
        return update(admission, old, new)

    async def both() -> None:
        await pending
        more = update(admission, old, new)
        if more is not None:
            await more

    return both()
