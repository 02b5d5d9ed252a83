"""Finalizers: clean up before an object goes.

``FinalizerRegistry`` holds what a builder declared: names and clean-up functions. ``FinalizerScope`` is
``async with ctx.finalizer("name") as scope`` for those who prefer to see it in the reconcile.

Entries are added and removed by JSON patches that test what they start from, so two controllers never
erase each other's entry: the one that is late gets ``Conflict`` and tries again.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from quarterdeck.api import ObjectMeta, Resource, Writable
from quarterdeck.api.finalizer import add_finalizer, finalizer_patch, remove_finalizer
from quarterdeck.client import Client, JsonPatch
from quarterdeck.errors import Conflict, Invalid, NotFound, QuarterdeckError
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.runtime.reconcile.result import Requeue, Result

T = TypeVar("T", bound=Resource)
W = TypeVar("W", bound=Writable)
C = TypeVar("C")


class FinalizerError(QuarterdeckError):
    """One or more clean-ups failed."""

    def __init__(self, errors: list[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f'finalizer "{name}" failed: {error}' for name, error in errors))
        self.errors: Final = errors


class FinalizerRegistry(Generic[C]):
    """Clean-up functions by finalizer name; ``C`` is the context they get."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[[C], Awaitable[Result | None]]] = {}

    def register(self, name: str, function: Callable[[C], Awaitable[Result | None]]) -> None:
        """Declare a clean-up; a name can be declared once."""
        if name in self._functions:
            raise ValueError(f'finalizer for key "{name}" already registered')
        self._functions[name] = function

    def __len__(self) -> int:
        return len(self._functions)

    def missing(self, metadata: ObjectMeta) -> list[str]:
        """Names that are not on the object."""
        return [name for name in self._functions if name not in metadata.finalizers]

    async def run(self, context: C, metadata: ObjectMeta) -> "FinalizerOutcome":
        """Run the clean-ups of all finalizers on the object; one that fails does not stop the others."""
        outcome = FinalizerOutcome([], None, [])
        for name, function in self._functions.items():
            if name not in metadata.finalizers:
                continue
            try:
                result = await function(context)
            except Requeue as later:
                result = later
            except BaseException as raised:  # noqa: BLE001  collected: the other clean-ups must run
                outcome.errors.append((name, contained(raised)))
                continue
            if result is None:
                outcome.done.append(name)
            else:
                outcome = outcome._replace(pending=result)
        return outcome


class FinalizerOutcome(NamedTuple):
    """What the clean-ups of one run came to."""

    done: list[str]
    """Finalizers that can be removed, also if others failed: they must not run twice."""
    pending: Result | None
    """The result of a clean-up that needs more time."""
    errors: list[tuple[str, Exception]]


async def change_finalizers(client: Client, obj: W, after: ObjectMeta) -> W:
    """Write a changed list of finalizers; gives back the object, itself if nothing changes.

    Raises ``Conflict`` if somebody else changed the list meanwhile.
    """
    patch = finalizer_patch(obj.metadata, after)
    if not patch:
        return obj
    try:
        return await client.patch(obj, JsonPatch(patch))
    except Invalid as error:
        # The test operation failed: the list is not what we have read.
        raise Conflict(
            f"finalizers of {obj.metadata.name} changed meanwhile: {error.message}",
            verb="patch",
            path=error.path,
        ) from error


class _Holder(Protocol[T]):
    """The part of a context that a scope needs."""

    @property
    def obj(self) -> T: ...
    @property
    def client(self) -> Client: ...
    def replace(self, obj: T) -> None: ...


class FinalizerScope(Generic[T]):
    """``async with ctx.finalizer("name") as scope``: the entry is there while the block matters.

    On entering, the finalizer is added to an object that is not being deleted. On leaving without an
    exception, it is removed from one that is.
    """

    def __init__(self, name: str, holder: _Holder[T]) -> None:
        self._name: Final = name
        self._holder: Final = holder
        self._keeps = False

    @property
    def is_deleting(self) -> bool:
        """Whether it is time to clean up."""
        return self._holder.obj.metadata.is_deleting

    def keep(self) -> None:
        """The clean-up is not finished: leave the finalizer for another run."""
        self._keeps = True

    async def __aenter__(self) -> "FinalizerScope[T]":
        obj = self._holder.obj
        if not obj.metadata.is_deleting:
            after = add_finalizer(obj.metadata, self._name)
            self._holder.replace(await change_finalizers(self._holder.client, obj, after))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        obj = self._holder.obj
        if error is not None or self._keeps or not obj.metadata.is_deleting:
            return
        after = remove_finalizer(obj.metadata, self._name)
        try:
            self._holder.replace(await change_finalizers(self._holder.client, obj, after))
        except NotFound:
            return
