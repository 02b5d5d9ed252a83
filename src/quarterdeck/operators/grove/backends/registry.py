"""Which backends there are.

All come through the same entry points, our own included. Ours are there whatever is allowed and cannot be
replaced by others. Entry points are looked for once, when somebody first asks; programs register theirs by
hand. All of it may happen in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import invalidate_caches
from importlib.metadata import EntryPoint, entry_points, version
from types import ModuleType
from typing import Any, Final, TypeVar, cast

import msgspec

from quarterdeck.operators.grove import names
from quarterdeck.runtime.log import get_logger
from quarterdeck.wire.fielderror import FieldError, invalid

from .contract import BackendFactory, DeclaresOptions
from .error import BackendAlreadyRegistered, BackendError, BackendNotFound
from .interface import INTERFACE, Interface

F = TypeVar("F", bound=BackendFactory)
_log: Final = get_logger(__name__)
_EVERYWHERE: Final = (names.KAI_SCHEDULER, names.DEFAULT_SCHEDULER)
_WHERE_INSTALLED: Final = (names.KOORDINATOR, names.LPX_SCHEDULER, names.VOLCANO)
"""Ours as well, of schedulers that are not part of this distribution."""
_OURS: Final = (*_EVERYWHERE, *_WHERE_INSTALLED)
"""In the order in which they are listed."""
_DISTRIBUTION: Final = "quarterdeck"


class BackendRegistry:
    """Factories by name."""

    def __init__(
        self,
        find: Callable[[], Sequence[EntryPoint]] | None = None,
        *,
        interface: Interface = INTERFACE,
    ) -> None:
        """``find`` looks for the entry points of other distributions; ``interface`` is what backends fit."""
        self.interface: Final = interface
        self._find: Final = find if find is not None else _installed
        self._lock: Final = threading.RLock()
        self._factories: dict[str, BackendFactory] = {}
        self._broken: dict[str, Exception] = {}
        self._found: set[str] = set()
        """Names of factories that came from entry points."""
        self._versions: dict[str, str] = {}
        """Of the distributions that these came from."""
        self._allowed: frozenset[str] | None = None
        self._is_loaded = False

    def register(self, name: str, factory: BackendFactory, *, replace: bool = False) -> None:
        """Make a backend known; raises ``BackendAlreadyRegistered`` if the name is taken.

        ``replace`` puts it in the place of one that was registered before, but never of one of ours.
        """
        with self._lock:
            if name in _OURS or (name in self._factories and not replace):
                raise BackendAlreadyRegistered(name)
            self._factories[name] = factory
            self._broken.pop(name, None)

    def get_factory(self, name: str) -> BackendFactory:
        """The factory of a name; raises ``BackendNotFound``, or what loading it raised."""
        with self._lock:
            self._load()
            if name in self._factories:
                return self._factories[name]
            if name in self._broken:
                error = self._broken[name]
                raise BackendError(f'scheduler backend "{name}" cannot be loaded: {error}') from error
            if name not in _OURS:
                raise BackendNotFound(name)
            return _our_factory(name)

    def version(self, name: str) -> str:
        """The version of the distribution that a backend comes from; ``unknown`` for one made by hand."""
        with self._lock:
            return version(_DISTRIBUTION) if name in _OURS else self._versions.get(name, "unknown")

    def names(self) -> list[str]:
        """All names: ours, then the others in order."""
        with self._lock:
            self._load()
            return [*_OURS, *sorted({*self._factories, *self._broken})]

    def unsupported(self, name: str) -> str:
        """What to say about a name that nobody registered."""
        others = [each for each in self.names() if each not in _OURS]
        listed = ", ".join((*_EVERYWHERE, *others))
        more = f"{', '.join(_WHERE_INSTALLED[:-1])} and {_WHERE_INSTALLED[-1]}"
        return f'unsupported scheduler "{name}" (supported: {listed}); also {more} where those are installed'

    def check_options(self, name: str, options: Mapping[str, Any], path: str) -> list[FieldError]:
        """What is wrong with the options of a backend, where it says what they are."""
        try:
            factory = self.get_factory(name)
        except BackendError:
            return []  # the same error ends the start of the backend, with its cause
        if not isinstance(factory, DeclaresOptions) or factory.options_type is None:
            return []
        try:
            msgspec.convert(options, factory.options_type)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$")
            return [invalid(f"{path}{place.rstrip('`')}", dict(options), text)]
        return []

    def reload(self) -> None:
        """Look for entry points again; what is registered stays."""
        with self._lock:
            invalidate_caches()
            self._is_loaded = False
            self._broken.clear()
            self._load()

    def restrict(self, allowed: Iterable[str] | None) -> None:
        """Load entry points of these names only; ``None`` allows all."""
        with self._lock:
            chosen = frozenset(allowed) if allowed is not None else None
            if chosen == self._allowed:
                return
            self._allowed, self._is_loaded = chosen, False
            self._broken.clear()
            for name in self._found - (chosen if chosen is not None else self._found):
                self._found.discard(name)
                del self._factories[name]

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True  # at once: a module may register itself while it is loaded
        for point in self._find():
            if self._allowed is not None and point.name not in self._allowed:
                _log.info("scheduler backend is not allowed, and not loaded", backend=point.name)
            elif point.name not in self._factories:
                self._load_one(point)

    def _load_one(self, point: EntryPoint) -> None:
        try:
            loaded = point.load()
            if not isinstance(loaded, ModuleType):  # a module registers what it has by itself
                self.register(point.name, loaded)
                self._found.add(point.name)
                if point.dist is not None:
                    self._versions[point.name] = point.dist.version
        except Exception as error:  # noqa: BLE001  code of others: it must not keep ours from starting
            _log.error("scheduler backend cannot be loaded", error, backend=point.name, trace=False)
            if point.name not in _OURS:
                self._broken[point.name] = error


@cache
def _our_factory(name: str) -> BackendFactory:
    """One of ours; looking through everything that is installed takes longer than starting a controller."""
    (point,) = (each for each in _installed(is_ours=True) if each.name == name)
    return cast("BackendFactory", point.load())


def _installed(*, is_ours: bool = False) -> Sequence[EntryPoint]:
    found = entry_points(group=names.BACKEND_ENTRY_POINTS)
    return tuple(
        each for each in found if (each.dist is not None and each.dist.name == _DISTRIBUTION) is is_ours
    )


default_registry: Final = BackendRegistry()
"""The registry of the process."""


def register(name: str, factory: BackendFactory, *, replace: bool = False) -> None:
    """Make a backend known to the process; see ``BackendRegistry.register``."""
    default_registry.register(name, factory, replace=replace)


def get_factory(name: str) -> BackendFactory:
    """The factory of a name; see ``BackendRegistry.get_factory``."""
    return default_registry.get_factory(name)


def registered_names() -> list[str]:
    """All names that the process knows."""
    return default_registry.names()


def backend(name: str) -> Callable[[F], F]:
    """Register the decorated class, or function, under a name."""

    def decorate(factory: F) -> F:
        register(name, factory)
        return factory

    return decorate
